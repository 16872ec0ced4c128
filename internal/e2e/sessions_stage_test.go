package e2e

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// many scales the tests that repeat something very often; 100000 is what the promise is made for.
var many = flag.Int("many", 5000, "how many statements or rounds the tests of flat memory make")

// A stage is where a script plays: PostgreSQL itself, or a pooler of two backends in front of it. A script plays on the
// first and then on several of the others, and all transcripts must be the same. So a script states what it expects, the
// run with PostgreSQL proves that, and a failure with the pooler is the pooler's.
//
// Steering: two holders take backends of the pool by a group without Sync, which keeps its backend in every mode but
// session. One of them holds its backend at any time, so the clients under test share the one that is free; move swaps the
// two, without a clock. In session mode and with PostgreSQL itself there is nothing to steer: move does nothing.
type stage struct {
	t       *testing.T
	pg      *pgtest.Server
	p       *pooler.Pooler // nil: PostgreSQL itself
	mode    string         // "" for PostgreSQL itself
	address string
	size    int
	holders []*holder // none where nothing is steered
	free    int       // the holder that holds nothing
	actors  []*actor
}

// staging says on which stages a script plays.
type staging struct {
	setup []string // SQL of the superuser, before each run
	flags []string // further flags of pg-kinetic
	env   []string
	modes []string // default: transaction
	size  int      // backends where nothing is steered; 0: two, steered
}

// everyMode is for what must not depend on the mode: prepared statements.
var everyMode = []string{"transaction", "session", "statement"}

// play runs the script on all stages and compares.
func play(t *testing.T, o staging, script func(s *stage)) {
	t.Helper()
	pg := pgtest.Shared(t)
	var want string
	ok := t.Run("direct", func(t *testing.T) {
		o.prepare(t, pg)
		s := &stage{t: t, pg: pg, address: pg.Addr()}
		defer s.leave()
		script(s)
		want = s.transcript()
	})
	if !ok || pooler.Chosen() == pooler.Direct {
		return
	}
	modes := o.modes
	if modes == nil {
		modes = []string{"transaction"}
	}
	for _, mode := range modes {
		for loops := 1; loops <= 2; loops++ {
			if mode != "transaction" && loops == 1 { // the number of loops matters alike in each mode
				continue
			}
			t.Run(fmt.Sprintf("%s on %d", mode, loops), func(t *testing.T) {
				o.prepare(t, pg)
				s := o.raise(t, pg, mode, loops)
				script(s)
				if got := s.transcript(); got != want {
					t.Errorf("differs from PostgreSQL (-) in (+):\n%s", firstDifference(want, got))
				}
				s.leave()
				s.probe()
			})
		}
	}
}

func (o staging) prepare(t *testing.T, pg *pgtest.Server) {
	t.Helper()
	for _, sql := range o.setup {
		pg.Exec(t, sql)
	}
}

// raise starts the pooler of a stage.
func (o staging) raise(t *testing.T, pg *pgtest.Server, mode string, loops int) *stage {
	t.Helper()
	size, steered := 2, mode != "session" && o.size == 0
	if o.size > 0 {
		size = o.size
	} else if !steered {
		size = 8
	}
	flags := append([]string{
		fmt.Sprintf("--server.loops=%d", loops), "--capacity.checkout-timeout-ms=60000",
		"--capacity.client-stall-timeout-ms=120000", "--capacity.idle-transaction-timeout-ms=120000",
	}, o.flags...)
	// The race detector's runtime would wait a second at the end for reports that halt_on_error has not let come.
	env := append([]string{"GORACE=halt_on_error=1 exitcode=66 atexit_sleep_ms=0"}, o.env...)
	p := pooler.Start(t, pg, pooler.Options{Mode: mode, PoolSize: size, Flags: flags, Env: env})
	s := &stage{t: t, pg: pg, p: p, mode: mode, address: p.Addr(), size: size}
	if steered && p.Target == pooler.Kinetic {
		s.steer()
	}
	return s
}

// client logs another client in.
func (s *stage) client(params ...string) *actor {
	s.t.Helper()
	a := &actor{s: s, c: pgwire.Dial(s.t, "tcp", s.address)}
	a.c.Timeout = 5 * time.Second
	all, err := a.c.Login(0, startup(params)...)
	if err != nil {
		s.t.Fatal(err)
	}
	a.login = all
	s.actors = append(s.actors, a)
	return a
}

// startup adds the user and the database to start-up parameters that do not name them.
func startup(params []string) []string {
	for i := 0; i < len(params); i += 2 {
		if params[i] == "user" {
			return params
		}
	}
	return append([]string{"user", "postgres", "database", "postgres"}, params...)
}

func (s *stage) direct() bool { return s.p == nil }

// transcript is what every client was told, client by client.
func (s *stage) transcript() string {
	var b strings.Builder
	for i, a := range s.actors {
		fmt.Fprintf(&b, "client %d\n%s", i+1, a.log.String())
	}
	return b.String()
}

// leave ends all clients and holders.
func (s *stage) leave() {
	for _, a := range s.actors {
		a.c.Close()
	}
	for _, h := range s.holders {
		h.c.Close()
	}
	s.holders = nil
}

// holder keeps a backend by a group that it does not end.
type holder struct {
	s *stage
	c *pgwire.Conn
}

// hold asks for a backend with a query; the answer may have to wait.
func (h *holder) hold(sql string) {
	h.s.t.Helper()
	err := h.c.Send(pgwire.Parse("", sql), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush())
	if err != nil {
		h.s.t.Fatal(err)
	}
}

// held waits for the backend and returns the row.
func (h *holder) held() string {
	h.s.t.Helper()
	all, err := h.c.ReadUntil('C', 1)
	if err != nil {
		h.s.t.Fatalf("a backend that nobody should keep is not to be had: %v after\n%s", err, pgwire.Transcript(all))
	}
	return row(all)
}

func (h *holder) release() {
	h.s.t.Helper()
	if err := h.c.Send(pgwire.Sync()); err != nil {
		h.s.t.Fatal(err)
	}
	if _, err := h.c.ReadUntil('Z', 1); err != nil {
		h.s.t.Fatal(err)
	}
}

func (s *stage) newHolder() *holder {
	s.t.Helper()
	h := &holder{s: s, c: pgwire.Login(s.t, "tcp", s.address, startup(nil)...)}
	h.c.Timeout = 5 * time.Second
	return h
}

// steer takes both backends and lets the clients have one.
func (s *stage) steer() {
	s.t.Helper()
	s.holders = []*holder{s.newHolder(), s.newHolder()}
	var pids []string
	for _, h := range s.holders {
		h.hold("SELECT pg_backend_pid()")
		pids = append(pids, h.held())
	}
	if pids[0] == pids[1] {
		s.t.Fatal("two open groups share a backend")
	}
	s.free = 0
	s.holders[0].release()
}

// move sends what the clients do next to the other backend. It fails when the present one is kept by a client.
func (s *stage) move() {
	s.t.Helper()
	if len(s.holders) == 0 {
		return
	}
	h := s.holders[s.free]
	h.hold("SELECT 1")
	h.held()
	s.free = 1 - s.free
	s.holders[s.free].release()
}

// spread lets the clients have both backends, until the script's end.
func (s *stage) spread() {
	s.t.Helper()
	if len(s.holders) > 0 {
		s.holders[1-s.free].release()
		s.holders = nil
	}
}

// pinned checks that a client keeps the free backend.
func (s *stage) pinned() {
	s.t.Helper()
	if len(s.holders) == 0 {
		return
	}
	h := s.newHolder()
	defer h.c.Close()
	h.hold("SELECT 1")
	if !h.c.Silent(100 * time.Millisecond) {
		s.t.Error("the backend is not kept for the client")
	}
}

// leftovers is one row that is the same in every session that nobody has touched. Statements made by the protocol are the
// pooler's own.
const leftovers = `SELECT concat_ws('|', (SELECT count(*) FROM pg_prepared_statements WHERE from_sql), (SELECT count(*) FROM pg_cursors WHERE is_holdable),
	(SELECT count(*) FROM pg_listening_channels()), (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
	(SELECT count(*) FROM pg_class WHERE relpersistence = 't' AND relnamespace = pg_my_temp_schema()), current_user, session_user,
	current_setting('application_name'), current_setting('search_path'), current_setting('DateStyle'), current_setting('TimeZone'),
	current_setting('statement_timeout'), current_setting('lock_timeout'), current_setting('client_encoding'), current_setting('role'),
	current_setting('work_mem'), current_setting('default_transaction_read_only'), current_setting('standard_conforming_strings'),
	current_setting('default_transaction_isolation'), current_setting('IntervalStyle'), current_setting('extra_float_digits'))`

// probe is the poison probe: 200 queries of a new client get their own answers, a new session finds every backend as a
// login to PostgreSQL does, and PostgreSQL has no session beside the pool's.
func (s *stage) probe() {
	t := s.t
	t.Helper()
	direct := pgwire.Login(t, "tcp", s.pg.Addr(), startup(nil)...)
	clean := ask(t, direct, leftovers)
	direct.Close()
	if s.p.Target == pooler.Kinetic {
		until(t, 5*time.Second, "no more sessions than the pool's size", func() bool { return s.sessions() <= s.size })
	}
	c := pgwire.Login(t, "tcp", s.address, startup(nil)...)
	for i := range 200 {
		if err := expect(c, fmt.Sprintf("nonce %d of %p", i, c), ""); err != nil {
			t.Fatalf("poison probe: %v", err)
		}
	}
	c.Close()
	var all []*holder
	for range s.size {
		h := s.newHolder()
		h.hold(leftovers)
		if got := h.held(); got != clean {
			t.Errorf("a new client finds %q, with PostgreSQL it finds %q", got, clean)
		}
		all = append(all, h)
	}
	for _, h := range all {
		h.release()
		h.c.Close()
	}
}

// sessions is the number of PostgreSQL's sessions, without the one that listens for the clients of a pool.
func (s *stage) sessions() int {
	s.t.Helper()
	listening := s.pg.Value(s.t, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name ~ 'listen'")
	n, err := strconv.Atoi(listening)
	if err != nil || n > 1 {
		s.t.Fatalf("%s sessions listen for one pool, %v", listening, err)
	}
	return s.pg.Backends(s.t) - n
}

// row is the first row of the messages, its values joined.
func row(all []pgwire.Message) string {
	for _, m := range all {
		if m.Type == 'D' {
			return strings.Join(pgwire.Values(m), "|")
		}
	}
	return ""
}

// errorCode is the SQLSTATE of the first error in the messages.
func errorCode(all []pgwire.Message) string {
	for _, m := range all {
		if m.Type == 'E' {
			return pgwire.ErrorOf(m).Code()
		}
	}
	return ""
}

// firstDifference shows both texts from three lines before the first that differs.
func firstDifference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	var out strings.Builder
	for _, line := range a[max(0, i-3):i] {
		fmt.Fprintf(&out, "  %s\n", line)
	}
	for _, line := range a[i:min(len(a), i+6)] {
		fmt.Fprintf(&out, "- %s\n", line)
	}
	for _, line := range b[i:min(len(b), i+6)] {
		fmt.Fprintf(&out, "+ %s\n", line)
	}
	return out.String()
}

// actor is a client of a script and what it was told since its login.
type actor struct {
	s     *stage
	c     *pgwire.Conn
	login []pgwire.Message
	log   strings.Builder
	quiet bool // what comes is not compared
}

// send writes messages in one write.
func (a *actor) send(messages ...[]byte) {
	a.s.t.Helper()
	if err := a.c.Send(messages...); err != nil {
		a.s.t.Fatal(err)
	}
}

// read reads up to the n-th message of a type.
func (a *actor) read(typ byte, n int) []pgwire.Message {
	a.s.t.Helper()
	all, err := a.c.ReadUntil(typ, n)
	a.record(all)
	if err != nil {
		a.s.t.Fatalf("waiting for %q: %v after\n%s", typ, err, pgwire.Transcript(all))
	}
	return all
}

// record adds to the transcript, ParameterStatus messages sorted before the ReadyForQuery that they precede: their place
// among the others is free.
func (a *actor) record(all []pgwire.Message) {
	var status []string
	if a.quiet {
		return
	}
	for _, m := range all {
		if m.Type == 'S' {
			status = append(status, m.String()+"\n")
			continue
		}
		if m.Type == 'Z' {
			slices.Sort(status)
			a.log.WriteString(strings.Join(status, ""))
			status = nil
		}
		a.log.WriteString(m.String() + "\n")
	}
	slices.Sort(status)
	a.log.WriteString(strings.Join(status, ""))
}

// group sends messages and Sync and reads the answer.
func (a *actor) group(messages ...[]byte) []pgwire.Message {
	a.s.t.Helper()
	a.send(append(messages, pgwire.Sync())...)
	return a.read('Z', 1)
}

// query sends a simple query and reads the answer.
func (a *actor) query(sql string) []pgwire.Message {
	a.s.t.Helper()
	a.send(pgwire.Query(sql))
	return a.read('Z', 1)
}

// exec is query that must not fail.
func (a *actor) exec(sql string) {
	a.s.t.Helper()
	if all := a.query(sql); errorCode(all) != "" {
		a.s.t.Errorf("%s: got\n%s", sql, pgwire.Transcript(all))
	}
}

// want runs a query whose first row must be that.
func (a *actor) want(want, sql string) {
	a.s.t.Helper()
	if all := a.query(sql); row(all) != want || errorCode(all) != "" {
		a.s.t.Errorf("%s: want %q, got\n%s", sql, want, pgwire.Transcript(all))
	}
}

// wantGroup sends a group whose first row must be that.
func (a *actor) wantGroup(want string, messages ...[]byte) {
	a.s.t.Helper()
	if all := a.group(messages...); row(all) != want || errorCode(all) != "" {
		a.s.t.Errorf("want %q, got\n%s", want, pgwire.Transcript(all))
	}
}

// fails runs a query that must fail.
func (a *actor) fails(code, sql string) {
	a.s.t.Helper()
	if all := a.query(sql); errorCode(all) != code {
		a.s.t.Errorf("%s: want %s, got\n%s", sql, code, pgwire.Transcript(all))
	}
}

// failsGroup sends a group that must fail.
func (a *actor) failsGroup(code string, messages ...[]byte) {
	a.s.t.Helper()
	if all := a.group(messages...); errorCode(all) != code {
		a.s.t.Errorf("want %s, got\n%s", code, pgwire.Transcript(all))
	}
}

// invoke is Bind and Execute of a statement by the unnamed portal.
func invoke(statement string, params ...string) []byte {
	var values [][]byte
	for _, p := range params {
		values = append(values, []byte(p))
	}
	return slices.Concat(pgwire.Bind("", statement, values...), pgwire.Execute("", 0))
}
