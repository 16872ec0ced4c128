package lookup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// fakeServer is a PostgreSQL in whose time nothing but what a test says passes.
type fakeServer struct {
	mu      sync.Mutex
	secrets map[string]string // of users
	delay   time.Duration     // of each answer
	refuse  error             // of each connect
	broken  int               // so many of the next answers end the session
	fails   *Error            // of each query

	asked              []string
	opened, open, most int
}

type fakeSession struct{ s *fakeServer }

func (s *fakeServer) connect(ctx context.Context, _ *Config) (asker, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opened++
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.open++
	s.most = max(s.most, s.open)
	return &fakeSession{s}, ctx.Err()
}

func (f *fakeSession) close() {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.s.open--
}

func (f *fakeSession) ask(ctx context.Context, user string) (Result, bool, error) {
	s := f.s
	s.mu.Lock()
	s.asked = append(s.asked, user)
	secret, known := s.secrets[user]
	broken, fails, delay := s.broken > 0, s.fails, s.delay
	if broken {
		s.broken--
	}
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return Result{}, false, ctx.Err()
	}
	switch {
	case broken:
		return Result{}, false, errors.New("connection reset")
	case fails != nil:
		return Result{}, true, fails
	}
	return Result{User: user, Known: known, Secret: auth.Plain(secret)}, true, nil
}

// sessions is how many are open.
func (s *fakeServer) sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

// config is that of the tests; what a test changes of it is its own.
func config() Config {
	c := Config{Query: "q", Timeout: 3 * time.Second, CacheFor: time.Minute}
	c.Server.Host = configs.Host{Network: "tcp", Address: "h:5432"}
	c.Server.Login.User, c.Server.Login.Database = "auth", "d"
	return c
}

// bed is a Lookup before a fakeServer, and what its callbacks were told.
type bed struct {
	*Lookup
	s       *fakeServer
	mu      sync.Mutex
	results []string
}

func newBed(cfg Config) *bed {
	b := &bed{Lookup: New(cfg), s: &fakeServer{secrets: map[string]string{"u": "secret"}, delay: time.Millisecond}}
	b.open = b.s.connect
	return b
}

func (b *bed) done(r Result, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.results = append(b.results, outcome(r, err))
}

func outcome(r Result, err error) string {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e.Answer().Code
	case err != nil:
		return "no *Error: " + err.Error()
	case !r.Known:
		return "unknown"
	}
	return "found"
}

// left is what a Lookup at rest has none of.
func (b *bed) left() int {
	b.Lookup.mu.Lock()
	defer b.Lookup.mu.Unlock()
	return b.waiting + len(b.queue) + len(b.pending)
}

// rest lets time pass.
func (b *bed) rest(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told is what the callbacks were told since the last call, once all is quiet.
func (b *bed) told() string {
	b.rest(10 * time.Millisecond)
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[string]int{}
	for _, r := range b.results {
		counts[r]++
	}
	b.results = nil
	if len(counts) == 0 {
		return "nothing"
	}
	return strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(counts), "map["), "]")
}

// find says what a login is told at once, "waits" when it is told later.
func (b *bed) find(user string) (string, Result) {
	r, found, err := b.Find(user, b.done)
	if !found && err == nil {
		return "waits", r
	}
	return outcome(r, err), r
}

func (b *bed) refresh(old Result) string {
	r, found, err := b.Refresh(old, b.done)
	switch {
	case !found && err == nil:
		return "waits"
	case found && !r.Newer(old):
		return "nothing newer"
	}
	return outcome(r, err)
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestLoginsOfOneUserShareOneQuery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		for i := range 1000 {
			got, _ := b.find("u")
			equal(t, fmt.Sprint("login ", i), got, "waits")
		}
		equal(t, "told", b.told(), "found:1000")
		equal(t, "queries", len(b.s.asked), 1)
		got, _ := b.find("u")
		equal(t, "a login behind them", got, "found")
		b.Close()
	})
}

// A result is used again for as long as the settings say; that a user is unknown
// for a second at most; an error not at all.
func TestResultsAreRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		f := func(user, first, told string) {
			t.Helper()
			got, _ := b.find(user)
			equal(t, user, got, first)
			equal(t, user+" later", b.told(), told)
		}
		f("u", "waits", "found:1")
		f("u", "found", "nothing")
		time.Sleep(59 * time.Second)
		f("u", "found", "nothing")
		time.Sleep(time.Second)
		f("u", "waits", "found:1")

		f("nobody", "waits", "unknown:1")
		f("nobody", "unknown", "nothing")
		b.s.secrets["nobody"] = "now somebody"
		time.Sleep(time.Second)
		f("nobody", "waits", "found:1")
		delete(b.s.secrets, "u")
		time.Sleep(time.Minute)
		f("u", "waits", "unknown:1")
		f("u", "unknown", "nothing")

		b.s.fails = fail(Misconfigured, "wrong")
		f("v", "waits", "28000:1")
		f("v", "waits", "28000:1")
		b.s.fails = nil

		cfg := config()
		cfg.CacheFor = 0
		b.Reconfigure(cfg)
		f("u", "waits", "unknown:1")
		f("u", "waits", "unknown:1")
		f(strings.Repeat("u", 64), "unknown", "nothing")
		b.Close()
	})
}

// A wrong password makes one query a second, however often it is tried and by
// how many.
func TestRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		b.find("u")
		b.told()
		_, old := b.find("u")
		equal(t, "looked up a moment ago", b.refresh(old), "nothing newer")
		time.Sleep(time.Second)
		for range 100 {
			equal(t, "a second later", b.refresh(old), "waits")
		}
		equal(t, "all of them", b.told(), "found:100")
		equal(t, "who had the old one", b.refresh(old), "found")
		_, fresh := b.find("u")
		equal(t, "who had the new one", b.refresh(fresh), "nothing newer")
		equal(t, "queries", len(b.s.asked), 2)

		before := len(b.s.asked)
		for range 10_000 { // an attacker for ten seconds
			_, r := b.find("u")
			b.refresh(r)
			time.Sleep(time.Millisecond)
		}
		if n := len(b.s.asked) - before; n < 5 || n > 10 {
			t.Errorf("%d queries in ten seconds", n)
		}
		b.told()

		delete(b.s.secrets, "u")
		time.Sleep(time.Second)
		_, old = b.find("u")
		equal(t, "dropped meanwhile", b.refresh(old), "waits")
		equal(t, "dropped meanwhile", b.told(), "unknown:1")
		got, _ := b.find("u")
		equal(t, "afterwards", got, "unknown")
		equal(t, "long name", b.refresh(Result{User: strings.Repeat("u", 64)}), "nothing newer")
		b.Close()
	})
}

func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		b.find("u")
		b.told()
		b.Forget("v")
		got, _ := b.find("u")
		equal(t, "somebody else is forgotten", got, "found")
		b.Forget("u")
		got, _ = b.find("u")
		equal(t, "the user is forgotten", got, "waits")
		equal(t, "asked again", b.told(), "found:1")
		b.Close()
	})
}

func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		for i := range 100 {
			b.find(fmt.Sprint("user", i))
		}
		time.Sleep(time.Second)
		equal(t, "told", b.told(), "unknown:100")
		equal(t, "connections at most", b.s.most, maxConnections)
		equal(t, "connects", b.s.opened, maxConnections)
		b.rest(idleFor / 2)
		equal(t, "kept", b.s.sessions(), maxConnections)
		b.find("v")
		b.told()
		b.rest(idleFor - time.Second)
		equal(t, "kept after a query", b.s.sessions(), 1)
		b.rest(time.Second)
		equal(t, "open at the end", b.s.sessions(), 0)
		b.Lookup.mu.Lock()
		equal(t, "workers at the end", b.running, 0)
		b.Lookup.mu.Unlock()

		// One that PostgreSQL has ended while it was idle is replaced unseen.
		b.find("u")
		equal(t, "first", b.told(), "found:1")
		b.s.broken = 1
		b.find("w")
		equal(t, "on an ended session", b.told(), "unknown:1")
		b.s.broken = 2
		b.find("x")
		equal(t, "on a server that ends all", b.told(), "08006:1")
		b.Close()
		equal(t, "open after Close", b.s.sessions(), 0)
	})
}

func TestWaitingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		b.s.delay = time.Hour
		count := func(n int, user func(int) string) map[string]int {
			got := map[string]int{}
			for i := range n {
				g, _ := b.find(user(i))
				got[g]++
			}
			synctest.Wait()
			return got
		}
		for range maxConnections { // each has its worker
			count(1, func(int) string { return fmt.Sprint("busy", len(b.pending)) })
		}
		got := count(maxQueued+5, func(i int) string { return fmt.Sprint("user", i) })
		equal(t, "users", fmt.Sprint(got), fmt.Sprint(map[string]int{"waits": maxQueued, "53300": 5}))
		got = count(maxWaiting, func(int) string { return "user0" })
		equal(t, "logins", fmt.Sprint(got), fmt.Sprint(map[string]int{"waits": maxWaiting - maxQueued - maxConnections, "53300": maxQueued + maxConnections}))
		time.Sleep(3 * time.Second)
		// The four are told that nothing came, those behind them that nothing was free.
		want := map[string]int{"08006": maxConnections, "53300": maxWaiting - maxConnections}
		equal(t, "told", b.told(), strings.TrimSuffix(strings.TrimPrefix(fmt.Sprint(want), "map["), "]"))
		equal(t, "waiting", b.left(), 0)
		b.Close()
	})
}

// A server that cannot be reached is tried twice a second, not once a login.
func TestUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		b.s.refuse = fail(Unreachable, "connection refused")
		b.find("u")
		equal(t, "first", b.told(), "08006:1")
		for range 100 {
			got, _ := b.find("v")
			equal(t, "while it is down", got, "08006")
		}
		equal(t, "connects", b.s.opened, 1)
		time.Sleep(downFor)
		later := 0
		for i := range 100 { // before the first of them has failed, or after
			got, _ := b.find(fmt.Sprint("user", i))
			if got == "waits" {
				later++
			} else {
				equal(t, "at once", got, "08006")
			}
		}
		equal(t, "all of them", b.told(), fmt.Sprint("08006:", later))
		if b.s.opened > 1+maxConnections {
			t.Errorf("%d connects", b.s.opened)
		}
		b.s.refuse = nil
		b.Reconfigure(config())
		b.find("u")
		equal(t, "after a reload", b.told(), "found:1")
		b.s.refuse = fail(Misconfigured, "password of auth_user")
		cfg := config()
		cfg.Server.Login.User = "other"
		b.Reconfigure(cfg)
		for range 2 {
			b.find("u")
			equal(t, "auth_user cannot log in", b.told(), "28000:1")
		}
		b.Close()
	})
}

// Whom the settings are about decides what a reload leaves.
func TestReconfigure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := func(name string, change func(*Config), kept bool) {
			t.Helper()
			b := newBed(config())
			defer b.Close()
			b.find("u")
			b.told()
			b.find("slow") // in progress meanwhile
			cfg := config()
			change(&cfg)
			b.Reconfigure(cfg)
			got, _ := b.find("u")
			equal(t, name, got, map[bool]string{true: "found", false: "waits"}[kept])
			got, _ = b.find("slow")
			equal(t, name+", in progress", got, "waits")
			b.told()
			equal(t, name+", queries", len(b.s.asked), map[bool]int{true: 2, false: 4}[kept])
			equal(t, name+", left", b.left(), 0)
			equal(t, name+", connects", b.s.opened <= 2 || !kept, true)
		}
		f("nothing", func(*Config) {}, true)
		f("times", func(c *Config) { c.Timeout, c.CacheFor = time.Second, time.Second }, true)
		f("credentials", func(c *Config) { c.Server.EndPoint, c.Server.Mode = nil, configs.TLSPrefer }, true)
		f("query", func(c *Config) { c.Query = "other" }, false)
		f("host", func(c *Config) { c.Server.Host.Address = "other:5432" }, false)
		f("user", func(c *Config) { c.Server.Login.User = "other" }, false)
		f("database", func(c *Config) { c.Server.Login.Database = "other" }, false)
	})
}

// Close tells everybody who waits, once, and leaves no goroutine behind: the
// bubble of the test would not end.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(config())
		b.s.delay = time.Hour
		for i := range 20 {
			b.find(fmt.Sprint("user", i))
			b.find("u")
		}
		synctest.Wait()
		b.Close()
		equal(t, "told", b.told(), "57P01:40")
		got, _ := b.find("v")
		equal(t, "after it", got, "57P01")
		b.Close()
		equal(t, "open", b.s.sessions(), 0)
	})
}

// Users come and go, PostgreSQL as well: each callback comes once.
func TestStormOfLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config()
		cfg.CacheFor = 50 * time.Millisecond
		b := newBed(cfg)
		waits, told := 0, 0
		var mu sync.Mutex
		done := func(Result, error) { mu.Lock(); told++; mu.Unlock() }
		for i := range 20_000 {
			user := fmt.Sprint("user", i*7919%50)
			r, found, err := b.Find(user, done)
			if found && i%3 == 0 {
				_, found, err = b.Refresh(r, done)
			}
			if !found && err == nil {
				waits++
			}
			switch i % 1000 {
			case 100:
				b.s.mu.Lock()
				b.s.broken, b.s.refuse = i%7, nil
				b.s.mu.Unlock()
			case 200:
				b.s.mu.Lock()
				b.s.refuse = fail(Unreachable, "refused")
				b.s.mu.Unlock()
			case 300:
				b.Reconfigure(cfg)
			case 400:
				cfg.Query += "x"
				b.Reconfigure(cfg)
			}
			if i%50 == 0 {
				time.Sleep(time.Duration(i%1700) * time.Millisecond)
			}
		}
		b.rest(time.Minute)
		equal(t, "callbacks", told, waits)
		equal(t, "left", b.waiting+len(b.queue)+len(b.pending)+b.running+b.s.sessions(), 0)
		if b.s.most > maxConnections || waits < 1000 {
			t.Errorf("%d connections, %d look-ups waited for", b.s.most, waits)
		}
		b.Close()
	})
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(3)
	for i := range 10 {
		c.put(Result{User: fmt.Sprint(i)})
		c.get("0") // used all the time
	}
	if len(c.byKey) != 3 || c.order.Len() != 3 {
		t.Errorf("%d users", len(c.byKey))
	}
	for user, want := range map[string]bool{"0": true, "8": true, "9": true, "7": false} {
		if _, found := c.get(user); found != want {
			t.Errorf("user %s is remembered: %t", user, found)
		}
	}
	c.drop("9")
	c.drop("9")
	if _, found := c.get("9"); found || c.order.Len() != 2 {
		t.Error("a dropped user is remembered")
	}
}

func TestExpired(t *testing.T) {
	now := time.Now()
	for at, want := range map[time.Time]bool{{}: false, now: true, now.Add(-time.Hour): true, now.Add(time.Hour): false} {
		if got := (Result{ValidUntil: at}).Expired(now); got != want {
			t.Errorf("valid until %v: expired %t", at, got)
		}
	}
}

func TestValidUntil(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		at, err := validUntil(text)
		got := at.UTC().Format(time.RFC3339Nano)
		if err != nil {
			got = err.Error()
		}
		if at.IsZero() && err == nil {
			got = "for ever"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
	f("2026-01-02 03:04:05+00", "2026-01-02T03:04:05Z")
	f("2026-01-02 03:04:05.123456+00", "2026-01-02T03:04:05.123456Z")
	f("infinity", "for ever")
	f("-infinity", "1970-01-01T00:00:00Z")
	f("4714-11-24 00:00:00+00 BC", "1970-01-01T00:00:00Z")
	f("294276-12-31 23:59:59+00", "for ever")
	f("2026-01-02", "its time is none that can be read")
	f("", "its time is none that can be read")
}

// An error for the log keeps to itself what a stranger must not know.
func TestAnswers(t *testing.T) {
	for _, kind := range []Kind{Unreachable, Misconfigured, Busy, Closed} {
		e := fail(kind, "planted %w", errors.New("cause"))
		f := e.Answer()
		if f.Severity != "FATAL" || len(f.Code) != 5 || f.Message == "" || strings.Contains(fmt.Sprint(f), "planted") {
			t.Errorf("%d: %+v", kind, f)
		}
		if e.Error() != "auth_query: planted cause" || errors.Unwrap(e) == nil {
			t.Errorf("%d: %v", kind, e)
		}
	}
}
