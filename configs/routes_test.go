package configs

import (
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
)

func TestRoutesFromFile(t *testing.T) {
	c, o := mustLoad(t, write(t, "full.yaml", fullYAML), nil, nil)
	limit, code, wait := 8, "53E01", 6000
	want := []Route{
		{
			Name:    "api",
			Match:   RouteMatch{Database: []string{"app"}, ApplicationName: []string{"api-*", ""}, ClientAddr: []string{"10.0.0.0/8", "2001:db8::1", "unix"}},
			SplitBy: []string{"client_addr"}, Weight: 3, OnFull: OnFullDropOldest,
			RouteLimits: RouteLimits{MaxRouteInFlight: &limit, OverloadErrorCode: &code},
		},
		{
			Match: RouteMatch{QueryClass: []string{"read", "default"}, User: []string{"batch"}}, Weight: 1, OnFull: OnFullRejectNew,
			RouteLimits: RouteLimits{CheckoutTimeoutMs: &wait},
		},
	}
	if !reflect.DeepEqual(c.Routes, want) {
		t.Errorf("\n got %+v\nwant %+v", c.Routes, want)
	}
	if at := o.Of("routes[0].match.client_addr"); at.Line == 0 || !o.Set("routes[1].match.user") || o.Set("routes[1].weight") {
		t.Errorf("origins: client_addr at %v", at)
	}
	e := c.Effective(c.Database("app"), c.User("batch"), &c.Routes[0])
	if e.MaxRouteInFlight != 8 || e.OverloadErrorCode != "53E01" || e.PoolMaxSize != 3 || e.MaxRouteWaiters != 0 {
		t.Errorf("effective: %+v", e)
	}
	prefixes, unix := c.Routes[0].Match.Addresses()
	if !unix || !slices.Equal(prefixes, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}) {
		t.Errorf("addresses: %v, %v", prefixes, unix)
	}
	if prefixes, unix = c.Routes[1].Match.Addresses(); unix || prefixes != nil {
		t.Errorf("no addresses: %v, %v", prefixes, unix)
	}
}

func TestRoutesFromEnvironment(t *testing.T) {
	path := write(t, "r.yaml", "routes: [{name: file}, {name: second}]\n")
	c, o := mustLoad(t, path, []string{
		`PG_KINETIC_ROUTES=[{"name":"env","match":{"user":"a*","query_class":["read"]},"max_route_waiters":4}]`,
		"PG_KINETIC_ADMISSION__ROUTE_KEY=user,client_addr", `PG_KINETIC_ADMISSION__APPLICATION_NAME_PATTERN=[0-9]{2,}`,
	}, []string{"--admission.max-routes=16"})
	if len(c.Routes) != 1 || c.Routes[0].Name != "env" || c.Routes[0].Match.User[0] != "a*" || *c.Routes[0].MaxRouteWaiters != 4 {
		t.Errorf("routes: %+v", c.Routes)
	}
	if !slices.Equal(c.Admission.RouteKey, []string{"user", "client_addr"}) || c.Admission.MaxRoutes != 16 || c.Admission.ApplicationNamePattern != "[0-9]{2,}" {
		t.Errorf("admission: %+v", c.Admission)
	}
	if at := o.Of("routes[0].match.user").String(); at != "environment PG_KINETIC_ROUTES" || o.Set("routes[1]") {
		t.Errorf("origin: %s", at)
	}
	c, _ = mustLoad(t, path, []string{"PG_KINETIC_ROUTES=[]", "PG_KINETIC_ADMISSION__ROUTE_KEY="}, nil)
	if c.Routes != nil || len(c.Admission.RouteKey) != 0 {
		t.Errorf("routes %v, key %v", c.Routes, c.Admission.RouteKey)
	}
}

// The words that are accepted are exactly those that package routing knows, and its cut of names is the one warned about.
func TestWordsAreRoutings(t *testing.T) {
	var parts routing.Parts
	for _, word := range routeParts {
		part, ok := routing.PartNamed(word)
		if !ok {
			t.Errorf("no part %q", word)
		}
		parts |= part
	}
	var classes routing.ClassSet
	for _, word := range queryClasses {
		class, ok := routing.ClassNamed(word)
		if !ok {
			t.Errorf("no class %q", word)
		}
		classes |= class.Set()
	}
	if parts != routing.AllParts || classes != routing.AllClasses {
		t.Errorf("parts %b, classes %b", parts, classes)
	}
	if row := table.byKey[sectionRoutes]["weight"]; row.Max > admission.MaxWeight || routing.MaxApplication != maxName {
		t.Errorf("weights up to %d of %d, names of %d bytes", row.Max, admission.MaxWeight, routing.MaxApplication)
	}
}

// Eight may run, four wait, and the thirteenth is refused: the same limits in both formats.
func TestEightAndFourInBothFormats(t *testing.T) {
	f := func(name, text string) {
		t.Helper()
		c, _ := mustLoad(t, write(t, name, text), nil, nil)
		e := c.Effective(c.Database("app"), nil, nil)
		if e.MaxRouteInFlight != 8 || e.MaxRouteWaiters != 4 || e.CheckoutTimeoutMs != 250 || e.OverloadErrorCode != "53300" {
			t.Errorf("%s: %+v", name, e)
		}
	}
	f("e.toml", "[capacity]\nmax_route_in_flight = 8\nmax_route_waiters = 4\ncheckout_timeout_ms = 250\noverload_error_code = \"53300\"\n")
	f("e.yaml", "capacity: {max_route_in_flight: 8, max_route_waiters: 4, checkout_timeout_ms: 250, overload_error_code: \"53300\"}\n")
}

func TestInvalidRoutes(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.yaml", "routes:\n"+text), nil, nil)
		expectProblems(t, problems, want)
	}
	// entries
	f("- weight: 2\n", "f.yaml:2:3: routes[0] has neither a match nor a name")
	f("- match: {}\n", "f.yaml:2:3: routes[0] has neither a match nor a name")
	f("- {name: \"\", match: {user: []}}\n", "f.yaml:2:3: routes[0] has neither a match nor a name")
	f("- name: a\n- match: {user: a}\n- name: a\n", `f.yaml:4:9: routes has a second entry for "a"`)
	f("- match: {user: a}\n- match: {user: b}\n  split_by: [user]\n", "f.yaml:4:13: routes[1].split_by keeps apart what a name puts together: give the rule a name")
	f("- name: \"a\\tb\"\n", "f.yaml:2:9: routes[0].name must not have control characters")
	f("- name: other\n", "f.yaml:2:9: routes[0].name is reserved")
	f("- name: "+strings.Repeat("x", 64)+"\n", "f.yaml:2:9: routes[0].name has 64 bytes; at most 63")
	f(strings.Repeat("- match: {user: a}\n", 1001), "f.yaml:2:1: routes has 1001 entries; at most 1000")
	// settings
	f("- name: a\n  weight: 0\n", "f.yaml:3:11: routes[0].weight must be from 1 to 1000, not 0")
	f("- name: a\n  on_full: drop_newest\n", `f.yaml:3:12: routes[0].on_full must be one of "reject_new", "drop_oldest", "drop_random", not "drop_newest"; nearest: "drop_oldest"`)
	f("- name: a\n  split_by: [usr]\n", `f.yaml:3:14: routes[0].split_by[0] must be one of "database", "user", "application_name", "client_addr", "query_class", not "usr"; nearest: "user"`)
	f("- name: a\n  split_by: [user, user]\n", "f.yaml:3:20: routes[0].split_by[1] is there twice: keep one")
	f("- name: a\n  split_by: user\n", "f.yaml:3:13: routes[0].split_by must be a list of texts, not a text")
	f("- name: a\n  max_route_in_flight: 0\n", "f.yaml:3:24: routes[0].max_route_in_flight must be from 1 to 65535, not 0")
	f("- name: a\n  pool_max_size: 5\n", "f.yaml:3:3: pool_max_size holds for whole pools and cannot be set in routes[0]: set it in capacity, databases or users")
	f("- name: a\n  pause_timeout_ms: 5\n", "f.yaml:3:3: pause_timeout_ms holds for whole pools")
	f("- name: a\n  max_checkout_waiters: 5\n", "f.yaml:3:3: max_checkout_waiters holds for the whole process and cannot be set in routes[0]: set capacity.max_checkout_waiters")
	f("- name: a\n  max_route_waitres: 5\n", `f.yaml:3:3: unknown key "max_route_waitres" in routes[0]; nearest known key: "max_route_waiters"`)
	f("- name: a\n  Max-Route-Waiters: 5\n", `f.yaml:3:3: unknown key "Max-Route-Waiters" in routes[0]; nearest known key: "max_route_waiters"`)
	// keys at the wrong level
	f("- name: a\n  user: b\n", `f.yaml:3:3: unknown key "user" in routes[0]; it belongs to routes[0].match`)
	f("- match:\n    user: b\n    weight: 2\n", `f.yaml:4:5: unknown key "weight" in routes[0].match; it belongs to routes[0]`)
	f("- match:\n    user: b\n    max_route_in_flight: 2\n", `f.yaml:4:5: unknown key "max_route_in_flight" in routes[0].match; it belongs to routes[0]`)
	f("- match:\n    loops: 2\n", `f.yaml:3:5: unknown key "loops" in routes[0].match; it belongs to server`)
	f("- match:\n    adress: 2\n", `f.yaml:3:5: unknown key "adress" in routes[0].match; nearest known key: `)
}

func TestInvalidMatches(t *testing.T) {
	f := func(match string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.yaml", "routes:\n- match: "+match+"\n"), nil, nil)
		for i := range want {
			want[i] = "f.yaml:2:" + want[i]
		}
		expectProblems(t, problems, want)
	}
	f("api", "10: routes[0].match must be a mapping of settings, not a text")
	f("[a]", "10: routes[0].match must be a mapping of settings, not a list")
	f("", "9: routes[0].match has no value")
	f("{user: }", "17: routes[0].match.user has no value")
	f("{user: a, user: b}", `20: "user" is written twice in routes[0].match, first on line 2: keep one`)
	f("{user: {a: b}}", "17: routes[0].match.user must be a text or a list of texts, not a mapping")
	f("{database: 2024}", "21: routes[0].match.database must be a text, not a whole number: put it in quotes")
	f("{database: [a, 2024]}", "25: routes[0].match.database[1] must be a text, not a whole number")
	f(`{database: ""}`, "21: routes[0].match.database must not be empty")
	f(`{user: ["a", "a"]}`, "23: routes[0].match.user[1] is there twice")
	f("{user: "+strings.Repeat("x", 257)+"}", "17: routes[0].match.user has 257 bytes; at most 256")
	f("{user: ["+strings.Repeat("x,", 65)+"]}", "17: routes[0].match.user has 65 entries; at most 64")
	f("{query_class: raed}", `24: routes[0].match.query_class must be one of "read", "write", "maintenance", "copy", "transaction", "session", "default", not "raed"; nearest: "read"`)
	f("{query_class: [read, ddl]}", `31: routes[0].match.query_class[1] must be one of `)
	f("{client_addr: localhost}", `24: routes[0].match.client_addr must be an address or a block of addresses`)
	f(`{client_addr: [unix, "10.0.0.1:5"]}`, `31: routes[0].match.client_addr[1] must be an address or a block`)
	f("{client_addr: 10.0.0.0/33}", `24: routes[0].match.client_addr must be an address or a block`)
	f("{client_addr: 10.1.2.3/8}", `24: routes[0].match.client_addr has bits set behind its prefix: write "10.0.0.0/8"`)
	f(`{client_addr: "2001:db8::1/32"}`, `24: routes[0].match.client_addr has bits set behind its prefix: write "2001:db8::/32"`)
	f(`{client_addr: "fe80::1%eth0"}`, `24: routes[0].match.client_addr must have no zone`)
	f(`{client_addr: "::ffff:10.0.0.1"}`, `24: routes[0].match.client_addr is an IPv4 address in IPv6 form, in which no client is seen: write "10.0.0.1/32"`)
	f(`{client_addr: "::ffff:10.0.0.0/104"}`, `24: routes[0].match.client_addr is an IPv4 address in IPv6 form, in which no client is seen: write "10.0.0.0/8"`)
	f(`{client_addr: "::ffff:10.0.0.0/90"}`, `24: routes[0].match.client_addr is an IPv4 address in IPv6 form, in which no client is seen: write "0.0.0.0/0"`)
	f(`{client_addr: "::ffff:0:0/96"}`, `24: routes[0].match.client_addr is an IPv4 address in IPv6 form, in which no client is seen: write "0.0.0.0/0"`)
}

func TestInvalidRoutesInTOML(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.toml", text), nil, nil)
		expectProblems(t, problems, want)
	}
	f("[[routes]]\nname = 'a'\n[routes.match]\nclient_addr = '10.0.0.1/8'\nusre = 'x'\n",
		`f.toml:4:15: routes[0].match.client_addr has bits set behind its prefix: write "10.0.0.0/8"`,
		`f.toml:5:1: unknown key "usre" in routes[0].match; nearest known key: "user"`)
	f("[[routes]]\nname = 'a'\n[[routes]]\nmatch.query_class = ['raed']\n", "f.toml:4:22: routes[1].match.query_class[0] must be one of")
	f("[[routes]]\nname = 'a'\n[[routes.match]]\nuser = 'x'\n", "f.toml:3:10: routes[0].match must be a mapping of settings, not a list")
	f("[[routes]]\nmatch = { user = 'x' }\nsplit_by = ['user']\n", "f.toml:3:1: routes[0].split_by keeps apart")
}

func TestInvalidKeys(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.yaml", "admission:\n  "+text+"\n"), nil, nil)
		expectProblems(t, problems, []string{"f.yaml:" + want})
	}
	f("route_key: [database, aplication_name]", `2:25: admission.route_key[1] must be one of "database", "user", "application_name", "client_addr", "query_class", not "aplication_name"; nearest: "application_name"`)
	f("route_key: [user, user]", "2:21: admission.route_key[1] is there twice: keep one")
	f("route_key: user", "2:14: admission.route_key must be a list of texts, not a text")
	f("max_routes: 15", "2:15: admission.max_routes must be from 16 to 1000000, not 15")
	f("application_name_pattern: '(a'", "2:29: admission.application_name_pattern is not a regular expression in RE2 syntax: missing closing )")
	f(`application_name_pattern: '(a)\1'`, "2:29: admission.application_name_pattern is not a regular expression in RE2 syntax: invalid escape sequence")
	f("application_name_pattern: '((((a{10}){10}){10}){10}){10}'", "2:29: admission.application_name_pattern is not a regular expression in RE2 syntax: ")
	f("application_name_pattern: "+strings.Repeat("a", 1025), "2:29: admission.application_name_pattern has 1025 bytes; at most 1024")
	f("application_name_replace: x", "2:29: admission.application_name_replace replaces nothing: admission.application_name_pattern is not set")
	pattern := `application_name_pattern: '(a)(?P<host>b)'` + "\n  application_name_replace: "
	f(pattern+"$3", `3:29: admission.application_name_replace names the group "3"`)
	f(pattern+"$1x", `3:29: admission.application_name_replace names the group "1x", which admission.application_name_pattern does not have`)
	f(pattern+"${hots}", `3:29: admission.application_name_replace names the group "hots"`)
	f(pattern+"$01", `3:29: admission.application_name_replace names the group "01"`)
	f(pattern+"a$", `3:29: admission.application_name_replace has a '$' that begins no group`)
	f(pattern+"${1", `3:29: admission.application_name_replace has a '$' that begins no group`)
	for _, replacement := range []string{"$0", "$1-$2", "${1}x", "$host", "${host}_", "$$", "x", "''"} {
		mustLoad(t, write(t, "ok.yaml", "admission:\n  "+pattern+replacement+"\n"), nil, nil)
	}
}

// What is accepted as a replacement names only groups that exist: Go's own expansion of it leaves nothing out.
func TestReplacementsReadAsGoReadsThem(t *testing.T) {
	c, _ := mustLoad(t, "", nil, []string{`--admission.application-name-pattern=-(\d+)@(?P<host>\w+)$`, "--admission.application-name-replace=-${1}n.$host$$"})
	a := c.Admission
	if got := compileRegexp(t, a.ApplicationNamePattern).ReplaceAllString("api-17@h1", a.ApplicationNameReplace); got != "api-17n.h1$" {
		t.Errorf("got %q", got)
	}
}
