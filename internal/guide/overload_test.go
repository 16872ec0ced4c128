package guide

import (
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestSettingsOfTheGuide: each file that the guide shows is valid. The only warning is the one that the guide tells of.
func TestSettingsOfTheGuide(t *testing.T) {
	t.Parallel()
	var worked []configs.Capacity
	for _, language := range []string{"toml", "yaml"} {
		for _, text := range overload.blocks(t, language) {
			c, o, problems := configs.Load(write(t, "guide."+language, text), nil, nil)
			for _, p := range problems {
				t.Errorf("%s in\n%s", p.String(), text)
			}
			if len(problems) > 0 {
				continue
			}
			for _, w := range configs.Warnings(c, o, 0) {
				if !strings.Contains(w.Message, "is below connect_timeout_ms") {
					t.Errorf("%s in\n%s", w.String(), text)
				}
			}
			if c.Capacity.MaxRouteInFlight == 8 {
				worked = append(worked, c.Capacity)
			}
		}
	}
	if len(worked) != 2 || !reflect.DeepEqual(worked[0], worked[1]) {
		t.Errorf("TOML and YAML of the worked example differ: %+v", worked)
	}
}

// TestTranscriptOfTheGuide types what the guide shows while eight requests run and four wait.
func TestTranscriptOfTheGuide(t *testing.T) {
	s := pgtest.Shared(t)
	// Nobody's wait may end while the test is at work.
	p := start(t, s, overload.block(t, "yaml", "53300"), "--capacity.checkout-timeout-ms=600000")
	open := gate(t, s)
	const sql = "select count(*) from gate"
	first := ask(crowd(t, p, 8, "api"), sql)
	atGate(t, s, 8)
	others := ask(crowd(t, p, 5, "api"), sql) // one too many: its refusal tells that the other four wait
	if e := refusal(t, <-others); e.Fields['M'] != "pg-kinetic: route queue full" {
		t.Error(e)
	}

	if want, got := replay(t, s, p, overload.block(t, "", "psql -XaAt")); got != want {
		t.Errorf("psql prints\n%s\nthe guide shows\n%s", got, want)
	}

	open()
	for range 8 {
		if a := <-first; a.err != nil {
			t.Error(a)
		}
	}
	for range 4 {
		if a := <-others; a.err != nil {
			t.Error(a)
		}
	}
}

// documented are the messages of the guide's table, with N for each number.
func documented(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, row := range overload.table(t, "what happened |") {
		if _, rest, ok := strings.Cut(row[1], "`"); ok {
			message, _, _ := strings.Cut(rest, "`")
			all = append(all, message)
		}
	}
	return all
}

var number = regexp.MustCompile(`\d+`)

// TestMessagesOfTheGuide provokes the messages of the table, in its order; TestPauseOfTheGuide and TestTooManyClientsOfTheGuide
// do the last two.
func TestMessagesOfTheGuide(t *testing.T) {
	t.Parallel()
	messages := documented(t)
	if len(messages) != 6 {
		t.Fatalf("the table has the messages %q", messages)
	}
	one := "capacity: {max_route_in_flight: 1, max_route_waiters: 1, checkout_timeout_ms: 600000}\n"
	hint := regexp.MustCompile(`^retry after (\d+) ms$`)
	f := func(message, settings, severity string, provoke func(busy, c *pgwire.Conn, address string) error, flags ...string) {
		t.Helper()
		p := start(t, pgtest.Shared(t), settings, append(flags, "--admission.route-key=database,user")...)
		busy := login(t, p)
		must(t, busy, "begin")
		err := provoke(busy, login(t, p), p.Addr())
		e, ok := err.(*pgwire.Error)
		if !ok {
			t.Errorf("%q: got %v", message, err)
			return
		}
		m := e.Fields
		if number.ReplaceAllString(m['M'], "N") != number.ReplaceAllString(message, "N") || m['C'] != "53300" || m['V'] != severity {
			t.Errorf("got %v, want %s %q", e, severity, message)
		}
		if !hint.MatchString(m['H']) || !strings.HasPrefix(m['D'], "route ") && !strings.HasPrefix(m['D'], "process: ") {
			t.Errorf("detail %q, hint %q", m['D'], m['H'])
		}
	}
	simple := func(_, c *pgwire.Conn, _ string) error { _, err := c.Exec("select 1"); return err }
	f(messages[0], strings.Replace(one, "waiters: 1", "waiters: 0", 1), "ERROR", simple)
	f(messages[1], one, "ERROR", simple, "--capacity.max-checkout-waiters=0")
	f(messages[2], one+"routes: [{name: r, match: {user: '*'}, on_full: drop_oldest}]", "ERROR", func(busy, c *pgwire.Conn, address string) error {
		other := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
		answers := ask([]*pgwire.Conn{c, other}, "select 1")
		shed := <-answers // whichever came first
		must(t, busy, "commit")
		if a := <-answers; a.err != nil {
			t.Errorf("the newcomer got %v", a.err)
		}
		return shed.err
	})
	timedOut := strings.Replace(one, "600000", "1000", 1) // enough for the first connect
	f(messages[3], timedOut, "ERROR", simple)
	f(messages[3], timedOut, "FATAL", func(_, _ *pgwire.Conn, address string) error {
		_, err := pgwire.Dial(t, "tcp", address).Login(0, "user", "postgres", "database", "postgres", "options", "-c work_mem=1234kB")
		return err
	})
}

func TestTooManyClientsOfTheGuide(t *testing.T) {
	t.Parallel()
	p := start(t, pgtest.Shared(t), "", "--server.max-clients=1")
	login(t, p)
	_, err := pgwire.Dial(t, "tcp", p.Addr()).Login(0, "user", "postgres", "database", "postgres")
	messages := documented(t)
	if e, ok := err.(*pgwire.Error); !ok || e.Fields['M'] != messages[len(messages)-1] || e.Code() != "53300" || e.Fields['V'] != "FATAL" {
		t.Errorf("got %v, want %q", err, messages)
	}
}

// TestNamedRuleOfTheGuide: eight for the whole API, whichever application and class, and four wait. Who sets its
// application_name to one of the API's belongs to it.
func TestNamedRuleOfTheGuide(t *testing.T) {
	s := pgtest.Shared(t)
	p := start(t, s, overload.block(t, "yaml", "api*"), "--capacity.checkout-timeout-ms=600000")
	open := gate(t, s)
	reads, writes := crowd(t, p, 6, "api-1"), crowd(t, p, 7, "another")
	for _, c := range writes {
		must(t, c, "set application_name = 'api-2'")
	}
	a, b := ask(reads[:4], "select from gate"), ask(writes[:4], "insert into gate default values")
	atGate(t, s, 8)
	// The last five: two of one application, three of the other.
	late := ask(append(reads[4:], writes[4:]...), "select from gate")
	e := refusal(t, <-late)
	if want := "route api: 8 of 8 in flight, 4 of 4 waiting; "; !strings.HasPrefix(e.Fields['D'], want) {
		t.Errorf("detail %q, want %q", e.Fields['D'], want)
	}
	open()
	for range 4 {
		for _, answers := range []<-chan answer{a, b, late} {
			if got := <-answers; got.err != nil {
				t.Error(got)
			}
		}
	}
}

// TestIsolationOfTheGuide: while the bulk route is full and refuses, the interactive one runs.
func TestIsolationOfTheGuide(t *testing.T) {
	s := pgtest.Shared(t)
	p := start(t, s, overload.block(t, "yaml", "interactive"))
	open := gate(t, s)
	web := login(t, p, "application_name", "web-1")
	first := ask(crowd(t, p, 12, "etl-1"), "select from gate")
	atGate(t, s, 12)
	late := crowd(t, p, 25, "report-1")
	queued := ask(late, "select from gate")
	e := refusal(t, <-queued)
	if want := "route bulk: 12 of 12 in flight, 24 of 24 waiting; pool postgres/postgres: 12 of 20 backends, "; !strings.HasPrefix(e.Fields['D'], want) {
		t.Errorf("detail %q, want %q", e.Fields['D'], want)
	}
	must(t, web, "select 1")
	open()
	for range 12 {
		if got := <-first; got.err != nil {
			t.Error(got)
		}
	}
	for range 24 {
		if got := <-queued; got.err != nil {
			t.Error(got)
		}
	}
}

// TestQueriesOfTheGuide: PostgreSQL understands them.
func TestQueriesOfTheGuide(t *testing.T) {
	t.Parallel()
	s := pgtest.Shared(t)
	for _, text := range overload.blocks(t, "sql") {
		for _, sql := range strings.Split(strings.TrimSuffix(strings.TrimSpace(text), ";"), ";\n") {
			rows := s.Exec(t, sql)
			if len(rows) == 0 {
				t.Errorf("no row from %s", sql)
			} else if strings.Contains(sql, "max_connections") && rows[0][0] != "297" { // pgtest.Shared has 300, 3 reserved
				t.Errorf("%s connections from %s", rows[0][0], sql)
			}
		}
	}
}

// value reads a cell such as "1 250 ms" or "1 000 (default)".
func value(t *testing.T, cell string) float64 {
	t.Helper()
	digits, _, _ := strings.Cut(regexp.MustCompile(`(\d) (\d)`).ReplaceAllString(cell, "$1$2"), " ")
	v, err := strconv.ParseFloat(digits, 64)
	if err != nil {
		t.Fatalf("cell %q: %v", cell, err)
	}
	return v
}

func near(t *testing.T, what, cell string, want float64) {
	t.Helper()
	if got := value(t, cell); math.Abs(got-want) > max(0.01*want, 0.5) {
		t.Errorf("%s: the guide says %s, computed %.2f", what, cell, want)
	}
}

func TestArithmeticOfTheGuide(t *testing.T) {
	t.Parallel()
	for _, row := range overload.table(t, "waiters | longest wait") {
		w := value(t, row[0])
		near(t, row[0]+" waiters at 1 600/s", row[1], w/1600*1000)
		near(t, row[0]+" waiters at 200/s", row[2], w/200*1000)
		near(t, row[0]+" waiters' memory", row[3], w*waiterBytes/1024)
		near(t, row[0]+" waiters' memory with larger requests", row[4], w*largeWaiterBytes/1024)
	}
	const total, seconds, places = 4000, 0.006, 8
	for _, row := range overload.table(t, "share of the clients |") {
		share, _, _ := strings.Cut(row[0], " %")
		percent, err := strconv.ParseFloat(share, 64)
		if err != nil {
			t.Fatal(err)
		}
		offered := total * percent / 100
		served := min(offered, places/seconds)
		near(t, "offered to "+row[0], row[1], offered)
		near(t, "needed by "+row[0], row[2], offered*seconds)
		near(t, "served to "+row[0], row[3], served)
		near(t, "refused to "+row[0], row[4], offered-served)
	}
}

// What a waiter and a route cost, in bytes: the figures of the guide, which TestWaiterMemory and TestRouteMemory hold
// against the heap.
const (
	waiterBytes      = 1.4 * 1024
	largeWaiterBytes = 16.5 * 1024
	routeBytes       = 1.3 * 1024
)
