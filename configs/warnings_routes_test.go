package configs

import (
	"regexp"
	"strings"
	"testing"
)

func TestRouteWarnings(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		c, o := mustLoad(t, write(t, "w.yaml", text), nil, nil)
		expectProblems(t, Warnings(c, o, 0), want)
	}
	// a limit above the largest pool that the rule may match
	f("routes:\n- name: a\n  max_route_in_flight: 21\n", "w.yaml:3:24: max_route_in_flight 21 is above pool_max_size 20: no more than 20 requests")
	f("routes:\n- name: a\n  max_route_in_flight: 20\n")
	f("routes:\n- name: a\n  max_route_in_flight: 21\ndatabases: [{name: big, pool_max_size: 30}, {name: x}]\n")
	f("routes:\n- name: a\n  match: {database: x*}\n  max_route_in_flight: 21\ndatabases: [{name: big, pool_max_size: 30}, {name: x}]\n", "w.yaml:4:24: max_route_in_flight 21 is above pool_max_size 20")
	f("routes:\n- name: a\n  match: {user: u}\n  max_route_in_flight: 4\nusers: [{name: u, pool_max_size: 3}]\n", "w.yaml:4:24: max_route_in_flight 4 is above pool_max_size 3")
	f("routes:\n- name: a\n  match: {user: [u, v]}\n  max_route_in_flight: 4\nusers: [{name: u, pool_max_size: 3}]\n")
	// session mode
	f("routes:\n- name: a\n  max_route_in_flight: 5\ndatabases: [{name: s, pool_mode: session}, {name: t}]\n", "w.yaml:3:24: max_route_in_flight 5 is below pool_max_size 20 in session mode")
	f("routes:\n- name: a\n  match: {database: t}\n  max_route_in_flight: 5\ndatabases: [{name: s, pool_mode: session}, {name: t}]\n")
	// classes
	f("server: {pool_mode: session}\nroutes:\n- match: {query_class: [read, write]}\n", `w.yaml:3:24: no request has query_class "read", "write": its pools are in session mode`)
	f("server: {pool_mode: session}\nroutes:\n- match: {query_class: [read, session]}\n")
	f("databases: [{name: s, pool_mode: session}, {name: t}]\nroutes:\n- match: {query_class: read}\n")
	f("databases: [{name: s, pool_mode: session}, {name: t}]\nroutes:\n- match: {query_class: read, database: s}\n", "w.yaml:3:24: no request has query_class")
	f("routes:\n- match: {query_class: session}\n", `w.yaml:2:24: query_class "session" never matches`)
	f("users: [{name: u, pool_mode: session}]\nroutes:\n- match: {query_class: session}\n")
	// times and queues
	f("routes:\n- name: a\n  checkout_timeout_ms: 250\n", "w.yaml:3:24: checkout_timeout_ms 250 is below connect_timeout_ms 3000")
	f("routes:\n- name: a\n  checkout_timeout_ms: 3000\n")
	f("routes:\n- name: a\n  query_timeout_ms: 20\n  transaction_timeout_ms: 10\n", "w.yaml:3:21: query_timeout_ms 20 is above transaction_timeout_ms 10")
	f("routes:\n- name: a\n  query_timeout_ms: 20\ndatabases: [{name: d, transaction_timeout_ms: 10}]\n", "w.yaml:3:21: query_timeout_ms 20 is above transaction_timeout_ms 10")
	f("routes:\n- name: a\n  max_route_waiters: 10001\n", "w.yaml:3:22: max_route_waiters 10001 is above max_checkout_waiters 10000")
	f("databases:\n- name: a\n  max_route_waiters: 10001\n", "w.yaml:3:22: max_route_waiters 10001 is above max_checkout_waiters 10000")
	f("routes:\n- name: a\n  on_full: drop_oldest\n  max_route_waiters: 0\n", "w.yaml:3:12: on_full drop_oldest drops nobody")
	f("routes:\n- name: a\n  on_full: drop_random\ncapacity: {max_route_waiters: 0}\n", "w.yaml:3:12: on_full drop_random drops nobody")
	f("routes:\n- name: a\n  on_full: drop_random\n")
	// names longer than any that PostgreSQL keeps
	f("routes:\n- match: {application_name: "+strings.Repeat("x", 64)+"}\n", "w.yaml:2:29: routes[0] never matches: application names are cut to 63 bytes")
	f("routes:\n- match: {application_name: [" + strings.Repeat("x", 64) + ", y]}\n")
	f("routes:\n- match: {application_name: " + strings.Repeat("x", 63) + "*}\n")
	// a database that nobody can ask for
	f("databases: [{name: a}]\nroutes:\n- match: {database: b*}\n", "w.yaml:3:21: routes[0] never matches: no entry of databases is for any of its names")
	f("databases: [{name: a}, {name: \"*\"}]\nroutes:\n- match: {database: b*}\n")
	f("routes:\n- match: {database: b}\n")
}

func TestPinnedSplits(t *testing.T) {
	f := func(match, part string, pinned bool) {
		t.Helper()
		c, o := mustLoad(t, write(t, "w.yaml", "routes:\n- name: a\n  match: {"+match+"}\n  split_by: ["+part+"]\n"), nil, nil)
		var want []string
		if pinned {
			want = []string{"w.yaml:4:13: split_by " + part + " keeps nothing apart: match." + part + " leaves it one value"}
		}
		expectProblems(t, Warnings(c, o, 0), want)
	}
	f("user: u", "user", true)
	f("user: u*", "user", false)
	f("user: [u, v]", "user", false)
	f("user: u", "client_addr", false)
	f("database: d", "database", true)
	f("application_name: [a]", "application_name", true)
	f("client_addr: 10.0.0.1", "client_addr", true)
	f("client_addr: 10.0.0.0/31", "client_addr", false)
	f("client_addr: unix", "client_addr", true)
	f("client_addr: [unix, \"::1\"]", "client_addr", false)
	f("query_class: read", "query_class", true)
	f("query_class: [read, write]", "query_class", false)
}

func TestCoveredRules(t *testing.T) {
	f := func(earlier, later string, covered bool) {
		t.Helper()
		c, o := mustLoad(t, write(t, "w.yaml", "routes:\n- {name: a, match: {"+earlier+"}}\n- {name: b, match: {"+later+"}}\n"), nil, nil)
		var want []string
		if covered {
			want = []string{"w.yaml:3:3: routes[1] never matches: routes[0] before it matches all of its requests"}
		}
		expectProblems(t, Warnings(c, o, 0), want)
	}
	f("", "user: u", true)
	f("user: u", "user: u", true)
	f("user: u", "user: v", false)
	f("user: u", "", false)
	f(`user: "*"`, "", true)
	f(`user: "*"`, "database: d", true)
	f("user: u", "user: u, database: d", true)
	f("user: u, database: d", "user: u", false)
	f("user: [v, u*]", "user: [u1, v]", true)
	f("user: [v, u*]", "user: [u1, w]", false)
	f("application_name: api-*", "application_name: api-*-x", true)
	f("application_name: api-*-x", "application_name: api-*", false)
	f("client_addr: 10.0.0.0/8", "client_addr: [10.1.0.0/16, 10.2.3.4]", true)
	f("client_addr: 10.1.0.0/16", "client_addr: 10.0.0.0/8", false)
	f("client_addr: 0.0.0.0/0", "client_addr: \"::/0\"", false)
	f("client_addr: [unix, 0.0.0.0/0]", "client_addr: unix", true)
	f("client_addr: 0.0.0.0/0", "client_addr: unix", false)
	f("client_addr: 0.0.0.0/0", "", false)
	f("query_class: [read, write]", "query_class: write", true)
	f("query_class: write", "query_class: [read, write]", false)
}

// With many entries the rules are not compared with each pair of them.
func TestManyEntriesAreNotCompared(t *testing.T) {
	var text strings.Builder
	text.WriteString("databases:\n")
	for i := range 101 {
		text.WriteString("- name: d" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + "\n")
	}
	text.WriteString("users:\n")
	for i := range 100 {
		text.WriteString("- name: u" + strings.Repeat("x", i%50) + string(rune('a'+i/50)) + "\n")
	}
	text.WriteString("routes:\n- name: a\n  max_route_in_flight: 21\n")
	c, o := mustLoad(t, write(t, "w.yaml", text.String()), nil, nil)
	expectProblems(t, Warnings(c, o, 0), nil)
	c.Users = c.Users[:90]
	expectProblems(t, Warnings(c, o, 0), []string{"w.yaml:206:24: max_route_in_flight 21 is above pool_max_size 20"})
}

// Every pattern of up to four bytes against every other one: globCovers is true exactly when all texts of the second fit
// the first.
// The byte c, which no pattern has, stands for all others.
func TestGlobCoversIsExact(t *testing.T) {
	patterns, texts := words("ab*", 4), words("abc", 5)
	fits := make(map[string][]bool, len(patterns))
	for _, p := range patterns {
		re := compileRegexp(t, "^"+strings.ReplaceAll(p, "*", ".*")+"$")
		for _, text := range texts {
			fits[p] = append(fits[p], re.MatchString(text))
		}
	}
	for _, p := range patterns {
		for _, q := range patterns {
			want := true
			for i := range texts {
				if fits[q][i] && !fits[p][i] {
					want = false
					break
				}
			}
			if got := globCovers(p, q); got != want {
				t.Errorf("globCovers(%q, %q) = %v, want %v", p, q, got, want)
			}
		}
	}
}

// words returns every text of up to n bytes of an alphabet.
func words(alphabet string, n int) []string {
	all, last := []string{""}, []string{""}
	for range n {
		var next []string
		for _, w := range last {
			for _, c := range alphabet {
				next = append(next, w+string(c))
			}
		}
		all, last = append(all, next...), next
	}
	return all
}

func compileRegexp(t *testing.T, text string) *regexp.Regexp {
	t.Helper()
	re, err := regexp.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return re
}
