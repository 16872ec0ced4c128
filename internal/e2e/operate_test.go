package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// watch is what operators have seen of one process or several: every view on the console, every list as JSON, all metrics. By
// names: "POOLS.cl_active", "LISTS: used_clients", "pg_kinetic_timeout_total{kind=query}".
type watch struct {
	views   map[string][]string // columns by view, as docs/console.md has them
	metrics []string            // as docs/metrics.md has them

	mu  sync.Mutex
	was sights
}

// sights tell of what has been looked at whether it has been something else than zero.
type sights map[string]bool

// watched is a process that is watched.
type watched struct {
	*pooler.Pooler
	t       *testing.T
	watch   *watch
	http    string
	console *pgconn.PgConn
	was     sights
}

func newWatch(t *testing.T) *watch {
	t.Helper()
	return &watch{views: documentedViews(t), metrics: documentedMetrics(t), was: sights{}}
}

func document(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var firstCell = regexp.MustCompile("(?m)^\\| `([^`]+)` \\|")

func documentedViews(t *testing.T) map[string][]string {
	t.Helper()
	views := map[string][]string{}
	for _, section := range strings.Split(document(t, "console.md"), "\n#### SHOW ")[1:] {
		name, table, _ := strings.Cut(section, "\n")
		for _, m := range firstCell.FindAllStringSubmatch(table, -1) {
			views[name] = append(views[name], m[1])
		}
	}
	if len(views) < 26 {
		t.Fatalf("docs/console.md has the columns of %d views", len(views))
	}
	return views
}

func documentedMetrics(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range firstCell.FindAllStringSubmatch(document(t, "metrics.md"), -1) {
		names = append(names, m[1])
	}
	if len(names) < 46 {
		t.Fatalf("docs/metrics.md has %d metrics", len(names))
	}
	return names
}

// operate starts a pooler that is watched.
func (w *watch) operate(t *testing.T, s *pgtest.Server, o pooler.Options) *watched {
	t.Helper()
	port, err := pgtest.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	o.HTTP = fmt.Sprintf("127.0.0.1:%d", port)
	k := &watched{Pooler: pooler.Start(t, s, o), t: t, watch: w, http: "http://" + o.HTTP, was: sights{}}
	k.console = k.open("pg_kinetic")
	return k
}

// open connects to one of the console's databases.
func (o *watched) open(database string) *pgconn.PgConn {
	o.t.Helper()
	c, err := pgconn.Connect(context.Background(), fmt.Sprintf("host=%s port=%d user=postgres database=%s", filepath.Dir(o.SocketPath()), o.Port, database))
	if err != nil {
		o.t.Fatal(err)
	}
	o.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// command runs one that must succeed.
func (o *watched) command(sql string) (columns []string, rows [][][]byte) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	results := o.console.Exec(ctx, sql)
	for results.NextResult() {
		r := results.ResultReader()
		for _, f := range r.FieldDescriptions() {
			columns = append(columns, f.Name)
		}
		rows = append(rows, r.Read().Rows...)
	}
	if err := results.Close(); err != nil {
		o.t.Fatalf("%s: %v", sql, err)
	}
	return columns, rows
}

// page gets one, whatever its status.
func (o *watched) page(path string) []byte {
	o.t.Helper()
	r, err := http.Get(o.http + path)
	if err != nil {
		o.t.Fatal(err)
	}
	text, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		o.t.Fatal(err)
	}
	return text
}

// look sees everything.
func (o *watched) look() {
	o.t.Helper()
	for name, columns := range o.watch.views {
		o.lookAt(name, columns)
	}
	o.lookAtMetrics()
	o.watch.mu.Lock()
	defer o.watch.mu.Unlock()
	for what, something := range o.was {
		o.watch.was.see(what, something)
	}
}

// lookAt sees a view, which must have the documented columns.
func (o *watched) lookAt(name string, documented []string) {
	o.t.Helper()
	columns, rows := o.command("SHOW " + name)
	if !slices.Equal(columns, documented) {
		o.t.Errorf("SHOW %s has %v, the documentation %v", name, columns, documented)
		return
	}
	for _, row := range rows {
		for i, column := range columns {
			zero := slices.Contains([]string{"", "0", "f", "no"}, string(row[i]))
			o.was.see(name+"."+column, !zero)
			if i > 0 && slices.Contains(namedRows, name) {
				o.was.see(name+": "+string(row[0]), !zero)
			}
		}
	}
}

// namedRows are the views whose rows have names of ours, each of which is to be seen by itself.
var namedRows = []string{"LISTS", "LIMITS", "MEM", "PERFORMANCE", "STATE", "TOTALS"}

// labelsOfData are those whose values are names of users' things.
var labelsOfData = []string{"route", "database", "user", "host", "of", "loop", "version", "sqlstate"}

// lookAtMetrics sees every documented metric by its other labels.
func (o *watched) lookAtMetrics() {
	o.t.Helper()
	families := o.families()
	for _, name := range o.watch.metrics {
		o.was.see(name, false)
		for _, m := range families[name].GetMetric() {
			kind := ""
			for _, l := range m.Label {
				if !slices.Contains(labelsOfData, l.GetName()) {
					kind += "," + l.GetName() + "=" + l.GetValue()
				}
			}
			if kind != "" {
				kind = "{" + kind[1:] + "}"
			}
			some := m.GetCounter().GetValue()+m.GetGauge().GetValue() > 0 || m.GetHistogram().GetSampleCount() > 0 && m.GetHistogram().GetSampleSum() > 0
			o.was.see(name, some)
			o.was.see(name+kind, some)
		}
	}
}

func (o *watched) families() map[string]*dto.MetricFamily {
	o.t.Helper()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(o.page("/metrics"))))
	if err != nil {
		o.t.Fatal(err)
	}
	for name := range families {
		if strings.HasPrefix(name, "pg_kinetic_") && !slices.Contains(o.watch.metrics, name) {
			o.t.Errorf("%s is not documented", name)
		}
	}
	return families
}

func (s sights) see(what string, something bool) { s[what] = s[what] || something }

// always lists what has been zero, or empty, whenever anybody looked.
func (w *watch) always() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, columns := range w.views {
		for _, c := range columns {
			w.was.see(name+"."+c, false) // of a view that never had a row
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(w.was)), func(what string) bool { return w.was[what] })
}

// lookUntil looks until all of this has been something.
func (o *watched) lookUntil(what ...string) {
	o.t.Helper()
	until(o.t, 20*time.Second, strings.Join(what, ", "), func() bool {
		o.look()
		return !slices.ContainsFunc(what, func(one string) bool { return !o.was[one] })
	})
}

// listed decodes a list of the JSON API.
func (o *watched) listed(name string) (rows []map[string]any) {
	o.t.Helper()
	text := o.page("/api/v1/" + name)
	if err := json.Unmarshal(text, &rows); err != nil {
		o.t.Fatalf("%s: %v\n%s", name, err, text)
	}
	return rows
}

// client logs in to a database of o as a user, named "NAME" or "NAME:APPLICATION".
func (o *watched) client(database, user string) *pgwire.Conn {
	o.t.Helper()
	user, application, _ := strings.Cut(user, ":")
	return pgwire.Login(o.t, "tcp", o.Addr(), "user", user, "database", database, "application_name", application)
}

// refused logs in, and must not get in.
func (o *watched) refused(state string, params ...string) {
	o.t.Helper()
	c := pgwire.Dial(o.t, "tcp", o.Addr())
	if _, err := c.Login(0, params...); code(err) != state {
		o.t.Errorf("%v: %v, want %s", params, err, state)
	}
	c.Close()
}

func (o *watched) send(c *pgwire.Conn, messages ...[]byte) {
	o.t.Helper()
	if err := c.Send(messages...); err != nil {
		o.t.Fatal(err)
	}
}

// wants executes SQL, which must end with a SQLSTATE; "" is success.
func (o *watched) wants(c *pgwire.Conn, sql, state string) {
	o.t.Helper()
	got := ""
	if _, err := c.Exec(sql); err != nil {
		got = code(err)
	}
	if got != state {
		o.t.Errorf("%s: %q, want %q", sql, got, state)
	}
}

// queued sends SQL and waits until n requests of the process wait.
func (o *watched) queued(c *pgwire.Conn, sql string, n int) {
	o.t.Helper()
	o.send(c, pgwire.Query(sql))
	o.waiting(n)
}

func (o *watched) waiting(n int) {
	o.t.Helper()
	until(o.t, 20*time.Second, fmt.Sprintf("%d waiting", n), func() bool {
		return slices.ContainsFunc(o.listed("lists"), func(row map[string]any) bool {
			return row["list"] == "waiting" && row["items"] == float64(n)
		})
	})
}

// answered reads up to ReadyForQuery.
func (o *watched) answered(c *pgwire.Conn) {
	o.t.Helper()
	if all, err := c.ReadUntil('Z', 1); err != nil {
		o.t.Fatalf("%v after %s", err, pgwire.Transcript(all))
	}
}

// closed reads to the end of a session.
func (o *watched) closed(c *pgwire.Conn) {
	o.t.Helper()
	if _, err := c.ReadAll(); err != nil {
		o.t.Fatal(err)
	}
	c.Close()
}

// watchedScenes are what poolers have to do with while they are watched.
var watchedScenes = map[string]func(*testing.T, *site, *watch){
	"logins": sceneLogins, "doors": sceneDoors, "proxy": sceneProxy, "operator": sceneOperator, "away": sceneAway,
	"overload": sceneOverload, "timeouts": sceneTimeouts, "sessions": sceneSessions, "buffers": sceneBuffers,
	"backends": sceneBackends, "cancels": sceneCancels,
}

// TestNothingIsAlwaysZero: whatever the documentation says that there is to be seen is there, and tells something.
func TestNothingIsAlwaysZero(t *testing.T) {
	x, w := secured(t), newWatch(t)
	x.Exec(t, "DROP ROLE IF EXISTS seen_app; CREATE ROLE seen_app LOGIN")
	t.Run("scenes", func(t *testing.T) {
		for name, scene := range watchedScenes {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				scene(t, x, w)
			})
		}
	})
	tests := testsOfTheModule(t)
	met := map[string]bool{}
	for _, what := range w.always() {
		i := slices.IndexFunc(alwaysZero, func(e exception) bool { return e.is(what) })
		if i < 0 {
			t.Errorf("%s is always zero", what)
			continue
		}
		met[alwaysZero[i].what] = true
		if test := alwaysZero[i].test; test != "" && !tests[test] {
			t.Errorf("%s: there is no test %s", what, test)
		}
	}
	for _, e := range alwaysZero {
		if !met[e.what] && !t.Failed() {
			t.Errorf("%s is no exception any more", e.what)
		}
	}
}

// exception is something that the scenes do not bring about.
type exception struct{ what, why, test string }

// is tells whether the exception is of this; what of it ends with * is a beginning.
func (e exception) is(what string) bool {
	begin, many := strings.CutSuffix(e.what, "*")
	return e.what == what || many && strings.HasPrefix(what, begin)
}

// alwaysZero are the exceptions: what is here because PgBouncer has it, what cannot be, and what another test has seen.
var alwaysZero = []exception{
	{"DATABASES.reserve_pool_size", "there are no reserve pools", ""},
	{"USERS.reserve_pool_size", "there are no reserve pools", ""},
	{"SERVERS.wait", "servers wait for nobody", ""},
	{"SERVERS.wait_us", "servers wait for nobody", ""},
	{"FDS.cancel", "keys are shown to nobody", ""},
	{"FDS.password", "secrets are shown to nobody", ""},
	{"LISTS: peers", "there are no peers", ""},
	{"LISTS: peer_pools", "there are no peers", ""},
	{"LISTS: dns_zones", "zones are not watched", ""},
	{"LISTS: dns_queries", "look-ups are not counted", ""},
	{"LISTS: dns_pending", "look-ups are not counted", ""},
	{"STATS.avg_*", "a period lasts a minute", "TestAverages"},
	{"STATS_AVERAGES.*", "a period lasts a minute", "TestAverages"},
	{"TOTALS: avg_*", "a period lasts a minute", "TestAverages"},
	{"SOCKETS.send_pos", "kernels take what is counted here at once", "TestBuffersAreShown"},
	{"ACTIVE_SOCKETS.send_pos", "kernels take what is counted here at once", "TestBuffersAreShown"},
	{"ACTIVE_SOCKETS.close_needed", "rows of SOCKETS, in which it is seen", ""},
	{"ACTIVE_SOCKETS.tls", "rows of SOCKETS, in which it is seen", ""},
	{"pg_kinetic_accept_paused_total", "it takes a process without descriptors", "TestOutOfDescriptors"},
	{"pg_kinetic_log_lines_dropped_total", "it takes a log that nobody reads", "TestLogSinkDropsAndTells"},
	{"pg_kinetic_dns_lookups_total{outcome=failed}", "it takes a resolver that fails", "TestNamesShown"},
	{"pg_kinetic_not_ready{reason=starting}", "who is asked answers when it has started", "TestNotReadyBeforeTheStart"},
	{"pg_kinetic_auth_attempts_total{method=reject,outcome=ok}", "nobody comes in by it", ""},
	{"pg_kinetic_auth_attempts_total{method=reject,outcome=denied}", "it asks for no proof", ""},
	{"pg_kinetic_client_closed_total{reason=none}", "the system has no room for a socket that it has accepted", ""},
	{"pg_kinetic_client_closed_total{reason=client_vanished}", "it takes a network that drops packets", "TestUserTimeoutOfClients"},
	{"pg_kinetic_client_connections{state=login}", "it is passed within a turn of the loop", ""},
}

// testsOfTheModule are the names of all tests.
func testsOfTheModule(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	name := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range name.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
