package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

var (
	ready = pgmock.Ready('I')
	full  = pgmock.Error("ERROR", "53300", "full")
	other = pgmock.Error("ERROR", "42P01", "no such table")
	row   = pgmock.DataRow("1")
)

// scripted is a server whose sessions answer their n-th query with the n-th answer, each part in a packet of its own, and
// then end.
func scripted(t *testing.T, answers ...[][]byte) Server {
	t.Helper()
	steps := []pgmock.Step{pgmock.Login()}
	for _, parts := range answers {
		steps = append(steps, pgmock.Expect('Q'))
		for _, part := range parts {
			steps = append(steps, pgmock.Send(part), pgmock.Delay(time.Millisecond))
		}
	}
	return mocked(pgmock.Start(t, steps...))
}

func mocked(s *pgmock.Server) Server {
	return Server{Network: "tcp", Address: s.Addr(), User: "u", Database: "d"}
}

func dial(t *testing.T, s Server, classes ...Class) *Group {
	t.Helper()
	g, err := Dial(s, Measured, classes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

var one = Class{Application: "script", Query: "select 1", Sessions: 1}

// offerAtOnce makes an open loop of requests that are all due at the beginning.
func offerAtOnce(g *Group, requests int, span time.Duration) (*Tally, error) {
	r := g.newRun()
	left := requests
	r.arrivals = []*arrivals{{end: int64(span), gap: func() int64 {
		if left--; left > 0 {
			return 0
		}
		return int64(span)
	}}}
	r.tallies[0].Span = span
	_, err := onThread(Measured, func() error { return r.offer(context.Background()) })
	return r.tallies[0], err
}

func TestOpenLoopCountsFromTheSchedule(t *testing.T) {
	g := dial(t, scripted(t, [][]byte{row, ready}, [][]byte{full[:7], full[7:], ready}, [][]byte{row, ready[:2], ready[2:]}), one)
	got, err := offerAtOnce(g, 3, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if got.Served.Count() != 2 || got.Refused.Count() != 1 || got.Within != 2 || got.Late.Count() != 3 || got.Failed != 0 {
		t.Fatalf("tally %s", summary(got))
	}
	// The server takes at least 1, 2 and 2 ms, one after the other.
	if got.Refused.Max() < 3*time.Millisecond || got.Served.Max() < 5*time.Millisecond || got.Late.Max() < 3*time.Millisecond {
		t.Errorf("latencies %v and %v, sent late by %v", got.Served.Max(), got.Refused.Max(), got.Late.Max())
	}
	if g := got.Goodput(); g != 0.2 {
		t.Errorf("goodput %v/s, want 2 in 10 s", g)
	}
	if got.Gap < 9*time.Second || got.Gap > 10*time.Second {
		t.Errorf("one refusal at the beginning of 10 s, and the longest gap is %v", got.Gap)
	}
}

func TestClosedLoopSendsItsNumber(t *testing.T) {
	g := dial(t, scripted(t, [][]byte{ready}, [][]byte{append(bytes.Clone(full), ready...)}, [][]byte{ready}), one)
	got, err := g.Repeat(context.Background(), 0, 3, 5, 0)
	if err != nil || got.Served.Count() != 2 || got.Within != 2 || got.Refused.Count() != 1 || got.Span < 2*time.Millisecond {
		t.Errorf("tally %s, %v", summary(got), err)
	}
	if _, err := g.Repeat(context.Background(), 0, 0, 1, 0); err == nil {
		t.Error("a closed loop without end")
	}
}

func TestClosedLoopEndsWithItsSpan(t *testing.T) {
	g := dial(t, mocked(pgmock.Start(t, pgmock.Login(), pgmock.Serve("1"))), Class{Query: "select 1", Sessions: 3})
	got, err := g.Repeat(context.Background(), 0, 0, 2, 20*time.Millisecond)
	if err != nil || got.Served.Count() < 2 || got.Span < 20*time.Millisecond {
		t.Errorf("tally %s, %v", summary(got), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if got, err = g.Repeat(ctx, 0, 0, 3, time.Hour); err != nil || got.Served.Count() < 3 {
		t.Errorf("cancelled: tally %s, %v", summary(got), err)
	}
}

func TestErrorsAreCountedByTheirSQLState(t *testing.T) {
	g := dial(t, scripted(t, [][]byte{append(bytes.Clone(other), ready...)}, [][]byte{ready}, [][]byte{append(bytes.Clone(full), ready...)}),
		Class{Query: "select 1", Sessions: 1, Refusals: []string{"42P01"}})
	got, err := g.Repeat(context.Background(), 0, 3, 1, 0)
	if err != nil || got.Served.Count() != 1 || got.Refused.Count() != 1 || got.Failed != 1 {
		t.Fatalf("tally %s, %v", summary(got), err)
	}
	if want := []Code{{"42P01", 1}, {"53300", 1}}; !slices.Equal(got.Codes, want) || got.Err.Error() != "ERROR 53300: full" {
		t.Errorf("codes %v, %v", got.Codes, got.Err)
	}
}

func TestLostSessions(t *testing.T) {
	// The only session ends with a FATAL error in its second request; three more can never be sent.
	g := dial(t, scripted(t, [][]byte{ready}, [][]byte{pgmock.Error("FATAL", "57P01", "going")}), one)
	got, err := offerAtOnce(g, 5, time.Second)
	if err == nil || !strings.Contains(err.Error(), `all 1 sessions of "script" are lost: FATAL 57P01`) {
		t.Errorf("got %v", err)
	}
	if got.Served.Count() != 1 || got.Failed != 1 || got.Lost != 1 || !slices.Equal(got.Codes, []Code{{"57P01", 1}}) {
		t.Errorf("tally %s", summary(got))
	}
}

func TestClassesHaveTheirOwnSchedules(t *testing.T) {
	s := mocked(pgmock.Start(t, pgmock.Login(), pgmock.Serve("1")))
	g := dial(t, s, Class{Query: "a", Sessions: 2}, Class{Query: "b", Sessions: 1}, Class{Query: "c", Sessions: 1})
	const span = 100 * time.Millisecond
	all, err := g.Offer(context.Background(), 1, Offer{Rate: 2000, Span: span}, Offer{Rate: 200, After: span / 2, Span: span}, Offer{})
	if err != nil {
		t.Fatal(err)
	}
	a, b, c := all[0].Served.Count(), all[1].Served.Count(), all[2].Served.Count()
	if a < 120 || a > 280 || b < 5 || b > 40 || c != 0 {
		t.Errorf("%d, %d and %d requests were served, the schedules have 200, 20 and none", a, b, c)
	}
	if _, err := g.Offer(context.Background(), 1, Offer{}); err == nil {
		t.Error("an offer for one of three classes")
	}
	before := time.Now()
	ctx, cancel := context.WithDeadline(context.Background(), before.Add(span))
	defer cancel()
	long := Offer{Rate: 100, Span: time.Hour}
	if all, err = g.Offer(ctx, 1, long, long, long); err != nil || all[0].Span <= 0 || all[0].Span > time.Since(before) {
		t.Errorf("a run that was ended after %v lasted %v, %v", span, all[0].Span, err)
	}
}

func TestLoginErrors(t *testing.T) {
	for name, step := range map[string]pgmock.Step{
		"FATAL 53300: full": pgmock.Send(pgmock.Error("FATAL", "53300", "full")),
		"load has none":     pgmock.Send(pgwire.Raw('R', []byte{0, 0, 0, 3})),
		"length 3":          pgmock.Send([]byte{'R', 0, 0, 0, 3}),
		"closed":            pgmock.Delay(0),
	} {
		_, err := Dial(mocked(pgmock.Start(t, pgmock.Startup(), step)), Measured, one)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("want %q, got %v", name, err)
		}
	}
	gone := pgmock.Start(t)
	gone.Down()
	if _, err := Dial(mocked(gone), Measured, one); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %v", err)
	}
	for _, s := range []Server{{Network: "pipe"}, {Network: "tcp", Address: "nowhere"}} {
		if _, err := Dial(s, Measured, one); err == nil {
			t.Errorf("%+v is a server", s)
		}
	}
}

// password answers AuthenticationCleartextPassword.
type password string

func (p password) Answer(body []byte) ([]byte, error) {
	if !bytes.Equal(body, []byte{0, 0, 0, 3}) {
		return nil, errors.New("not a password")
	}
	return pgwire.Raw('p', append([]byte(p), 0)), nil
}

func TestAuthenticator(t *testing.T) {
	steps := func(code byte) []pgmock.Step {
		return []pgmock.Step{
			pgmock.Startup(), pgmock.Send(pgwire.Raw('R', []byte{0, 0, 0, code})), pgmock.Expect('p'),
			pgmock.Send(pgmock.AuthenticationOk(), ready), pgmock.Serve("1"),
		}
	}
	s := mocked(pgmock.Start(t, steps(3)...))
	s.Authenticate = func() Authenticator { return password("secret") }
	g := dial(t, s, one)
	if got, err := g.Repeat(context.Background(), 0, 1, 1, 0); err != nil || got.Served.Count() != 1 {
		t.Errorf("tally %s, %v", summary(got), err)
	}
	s.Address = pgmock.Start(t, steps(5)...).Addr()
	if _, err := Dial(s, Measured, one); err == nil || !strings.Contains(err.Error(), "not a password") {
		t.Errorf("got %v", err)
	}
}

func TestRing(t *testing.T) {
	a, b, c := &conn{}, &conn{}, &conn{}
	r := ring{conns: make([]*conn, 3)}
	r.add(a)
	r.add(b)
	r.take()
	r.add(c)
	r.add(a)
	if r.remove(&conn{}) || !r.remove(c) || r.take() != b || r.take() != a || r.take() != nil {
		t.Error("the ring of b, c, a without c is not b, a")
	}
}

func TestTalliesAddUp(t *testing.T) {
	a := &Tally{Span: time.Second, Within: 2, Gap: 3, Codes: []Code{{"53300", 1}}}
	b := &Tally{Span: time.Second, Within: 4, Failed: 1, Lost: 1, Gap: 2, Codes: []Code{{"53300", 2}, {"57P01", 1}}, Err: errClosed}
	b.Served.Record(5)
	b.Refused.Record(6)
	b.Late.Record(7)
	a.Add(b)
	if a.Goodput() != 3 || a.Failed != 1 || a.Lost != 1 || a.Gap != 3 || !errors.Is(a.Err, errClosed) ||
		!slices.Equal(a.Codes, []Code{{"53300", 3}, {"57P01", 1}}) ||
		a.Served.Max() != 5 || a.Refused.Max() != 6 || a.Late.Max() != 7 {
		t.Errorf("sum %s", summary(a))
	}
}

func summary(t *Tally) string {
	return fmt.Sprintf("span %v, served %d, refused %d, failed %d, within %d, late %d, lost %d, gap %v, codes %v, error %v", t.Span,
		t.Served.Count(), t.Refused.Count(), t.Failed, t.Within, t.Late.Count(), t.Lost, t.Gap, t.Codes, t.Err)
}
