package e2e

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

var canarySeed = flag.Uint64("canary-seed", 4, "the seed of what tenants and operators do")

// A tenant is a client whose session is its own in everything: schema, role, zone, time-out, statements, temporary tables,
// locks, channels. It knows what its session must be and checks every answer against that, so that a trace of another
// tenant, or the loss of one of its own, is seen at once.
//
// owner: one goroutine. Invariant between two steps: no block is open, no pin is held, nothing is owed.
type tenant struct {
	c        *pgwire.Conn
	id       int
	random   *rand.Rand
	atStart  map[string]string // what the session began with
	settings map[string]string // what it has now
	prepared map[string]string // name → what its statement answers; the unnamed one is not kept here
	channel  string            // "" = does not listen
	pending  []string          // notifications that came and were not yet asked for
	serial   int
	answers  *atomic.Int64
}

// zones are names that PostgreSQL reports as they are written.
var zones = []string{"Europe/Zurich", "Asia/Tokyo", "America/New_York", "Africa/Cairo", "Australia/Sydney", "Pacific/Auckland", "Asia/Kolkata"}

// canaryLook is the session as the tenant knows it: the table who is found by search_path.
const canaryLook = `SELECT current_setting('search_path'), current_user, current_setting('TimeZone'), current_setting('statement_timeout'),
	current_setting('application_name'), current_setting('work_mem'), (SELECT id FROM who)`

func canarySetup(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `CREATE SCHEMA IF NOT EXISTS canary_%d; CREATE TABLE IF NOT EXISTS canary_%d.who(id int); TRUNCATE canary_%d.who; INSERT INTO canary_%d.who VALUES (%d);
			DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'canary_role_%d') THEN CREATE ROLE canary_role_%d; END IF; END $$;
			GRANT ALL ON SCHEMA canary_%d TO PUBLIC; GRANT ALL ON canary_%d.who TO PUBLIC;`, i, i, i, i, i, i, i, i, i)
	}
	return b.String()
}

// TestTenantCanaryStorm: fifty tenants on three backends, with errors, time-outs, cancels and sudden ends.
func TestTenantCanaryStorm(t *testing.T) {
	const tenants, size = 50, 3
	s := pgtest.Shared(t)
	s.Exec(t, canarySetup(tenants))
	p := pooler.Start(t, s, pooler.Options{PoolSize: size, Flags: []string{
		"--server.loops=2", "--capacity.checkout-timeout-ms=15000", "--capacity.max-pinned=2", "--capacity.max-prepared-statements=20",
	}})
	t.Logf("-canary-seed %d", *canarySeed)
	end := time.Now().Add(long(10 * time.Second))
	var answers, sessions atomic.Int64
	var all sync.WaitGroup
	var first sync.Once
	for i := range tenants {
		all.Go(func() {
			random := rand.New(rand.NewPCG(*canarySeed, uint64(i)))
			for n := 0; time.Now().Before(end) && !t.Failed(); n++ {
				if err := tenancy(p, i, random, &answers, end); err != nil {
					t.Errorf("tenant %d, session %d: %v", i, n, err)
					first.Do(func() {
						activity, _ := s.Query("SELECT pid, state, wait_event, state_change, left(query, 80) FROM pg_stat_activity WHERE backend_type = 'client backend'")
						t.Logf("PostgreSQL's sessions: %q", activity)
					})
					return
				}
				sessions.Add(1)
			}
		})
	}
	all.Wait()
	t.Logf("%d right answers in %d sessions", answers.Load(), sessions.Load())
	if answers.Load() < 1000 && !t.Failed() {
		t.Errorf("only %d answers", answers.Load())
	}
	if p.Target == pooler.Kinetic && !t.Failed() {
		last := &stage{t: t, pg: s, p: p, mode: "transaction", address: p.Addr(), size: size}
		last.probe()
	}
}

// tenancy is one session of a tenant, from its login to one of its ends.
func tenancy(p *pooler.Pooler, id int, random *rand.Rand, answers *atomic.Int64, end time.Time) error {
	c, err := pgwire.Open("tcp", p.Addr())
	if err != nil {
		return err
	}
	defer c.Close()
	c.Timeout = 20 * time.Second
	v := &tenant{c: c, id: id, random: random, answers: answers, prepared: map[string]string{}}
	v.atStart = map[string]string{
		"search_path": fmt.Sprintf("canary_%d", id), "role": "postgres", "TimeZone": "UTC", "statement_timeout": "0",
		"application_name": fmt.Sprint("tenant ", id), "work_mem": "4MB",
	}
	params := []string{"search_path", v.atStart["search_path"], "application_name", v.atStart["application_name"]}
	if random.IntN(2) == 0 {
		v.atStart["TimeZone"], v.atStart["statement_timeout"] = zones[id%len(zones)], fmt.Sprint(30001+id, "ms")
		params = append(params, "TimeZone", v.atStart["TimeZone"], "options", fmt.Sprintf("-c statement_timeout=%d", 30001+id))
	}
	v.settings = maps.Clone(v.atStart)
	if _, err := c.Login(0, startup(params)...); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	for range 5 + random.IntN(60) {
		step := canarySteps[random.IntN(len(canarySteps))]
		if err := step.do(v); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if err := v.look(); err != nil {
			return fmt.Errorf("after %s: %w", step.name, err)
		}
		if time.Now().After(end) {
			break
		}
	}
	return v.leave()
}

// send writes messages and reads up to the n-th ReadyForQuery; notifications are taken out and must be the tenant's.
func (v *tenant) send(n int, messages ...[]byte) ([]pgwire.Message, error) {
	if err := v.c.Send(messages...); err != nil {
		return nil, err
	}
	all, err := v.c.ReadUntil('Z', n)
	var kept []pgwire.Message
	for _, m := range all {
		if m.Type != 'A' {
			kept = append(kept, m)
		} else if err := v.heard(m); err != nil {
			return nil, err
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w after\n%s", err, pgwire.Transcript(kept))
	}
	v.answers.Add(int64(n))
	return kept, nil
}

func (v *tenant) heard(m pgwire.Message) error {
	text := heard([]pgwire.Message{m})[0]
	if !strings.HasPrefix(text, fmt.Sprintf("canary_channel_%d=", v.id)) {
		return fmt.Errorf("foreign notification %q", text)
	}
	v.pending = append(v.pending, text)
	return nil
}

// want sends messages whose first row must be that.
func (v *tenant) want(want string, messages ...[]byte) error {
	all, err := v.send(1, messages...)
	if err == nil && (row(all) != want || errorCode(all) != "") {
		err = fmt.Errorf("want %q, got\n%s", want, pgwire.Transcript(all))
	}
	return err
}

// fails sends messages that must fail so.
func (v *tenant) fails(code string, messages ...[]byte) error {
	all, err := v.send(1, messages...)
	if err == nil && errorCode(all) != code {
		err = fmt.Errorf("want %s, got\n%s", code, pgwire.Transcript(all))
	}
	return err
}

// exec sends a simple query that must succeed.
func (v *tenant) exec(sql string) error {
	all, err := v.send(1, pgwire.Query(sql))
	if err == nil && errorCode(all) != "" {
		err = fmt.Errorf("%s: got\n%s", sql, pgwire.Transcript(all))
	}
	return err
}

// look compares the session with what the tenant knows of it, by either protocol.
func (v *tenant) look() error {
	set := v.settings
	want := strings.Join([]string{
		set["search_path"], set["role"], set["TimeZone"], set["statement_timeout"], set["application_name"], set["work_mem"], fmt.Sprint(v.id),
	}, "|")
	if v.random.IntN(2) == 0 {
		return v.want(want, pgwire.Query(canaryLook))
	}
	return v.want(want, pgwire.Parse("", canaryLook), invoke(""), pgwire.Sync())
}

// leave ends the session in one of the ways in which sessions end.
func (v *tenant) leave() error {
	switch v.random.IntN(6) {
	case 0:
		return v.c.Send(pgwire.Terminate())
	case 1:
		v.c.Reset()
	case 2: // in a block, with locks and settings
		err := v.exec(fmt.Sprintf("BEGIN; SET LOCAL ROLE canary_role_%d; SET work_mem = '64MB'; SELECT pg_advisory_xact_lock(%d)", v.id, v.id))
		v.c.Close()
		return err
	case 3: // in a group
		_ = v.c.Send(pgwire.Parse("a", "SELECT 'vanished'"), invoke("a"), pgwire.Parse("", "SET work_mem = '65MB'"), invoke(""))
		v.c.Reset()
	case 4: // in a query
		_ = v.c.Send(pgwire.Query("SELECT pg_sleep(0.05); SET search_path = vanished"))
		v.c.Reset()
	case 5: // in half a message
		_ = v.c.Send(pgwire.Query("SET search_path = vanished")[:12])
		v.c.Close()
	}
	return nil
}
