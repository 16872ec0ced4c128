package protocol

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// relay joins a Tracker to the model as a pooler would, with every order of
// events that a network allows.
type relay struct {
	t       testing.TB
	pick    source
	tracker Tracker
	server  *model
	script  []message
	read    int // messages of the model that were received
	blocked bool
	client  []said
	left    bool
	log     []string
	sent    int // messages of the script that were offered and not held
	closes  int // one in so many Binds and Describes gets a Close of ours before it
	relayLocal
}

func newRelay(t testing.TB, pick source, seen map[string]int) *relay {
	r := &relay{t: t, pick: pick, server: newModel(), closes: 4}
	r.relayLocal = relayLocal{seen: seen, settled: map[uint64]Outcome{}}
	r.tracker.Reset()
	return r
}

func (r *relay) fatalf(format string, args ...any) {
	r.t.Helper()
	for _, l := range r.log {
		r.t.Log(l)
	}
	r.t.Fatalf(format, args...)
}

func (r *relay) logf(format string, args ...any) {
	r.log = append(r.log, fmt.Sprintf(format, args...))
}

// send sends a message that the tracker has counted just now, or does not count.
func (r *relay) send(c message) {
	if kindOf[c.typ] != kindNone && c.number == 0 {
		c.number = r.tracker.Sent()
	}
	r.server.in = append(r.server.in, c)
}

// offer offers the client's next message; false when it cannot.
func (r *relay) offer() bool {
	if len(r.script) == 0 || r.blocked {
		return false
	}
	c := r.script[0]
	if c.await {
		if !r.server.quiet() || r.read < r.server.pushed {
			return false
		}
		r.next()
		return true
	}
	closed := (c.typ == FrontendBind || c.typ == FrontendDescribe) && r.pick(r.closes) == 0 && r.injectClose()
	if r.prepare(c) {
		return true
	}
	v := r.offerOne(c)
	r.logf("> %c %d marked=%v local=%v: %d", c.typ, c.id, c.marked, c.local, v)
	if closed && v != Forward && v != AnswerLater {
		r.fatalf("behind a Close of ours: %d", v)
	}
	switch v {
	case Forward:
		r.send(c)
	case ForwardFlush:
		r.send(c)
		r.send(message{typ: FrontendFlush, id: -1})
	case Hold, Full:
		r.blocked = true
		return true
	}
	r.next()
	if (v == Forward || v == ForwardFlush) && kindOf[c.typ].ready() {
		r.localGroup = false
	}
	return true
}

func (r *relay) next() {
	r.script = r.script[1:]
	r.sent++
}

// injectClose sends a Close of ours before the client's next message, if it may
// go there.
func (r *relay) injectClose() bool {
	if !r.tracker.MayInject() || r.tracker.Inject(FrontendClose) != Forward {
		return false
	}
	r.logf("~ C")
	r.send(message{typ: FrontendClose, id: -1})
	return true
}

// receive takes one message that has left the model's buffer.
func (r *relay) receive() bool {
	if r.read == r.server.pushed {
		return false
	}
	m := r.server.out[r.read]
	r.read++
	a, answers, err := r.deliver(&r.tracker, m, &r.pending, r.settled)
	r.logf("< %c %d %s: %+v %v", m.typ, m.id, m.code, a, err)
	if err != nil {
		r.fatalf("received %c: %v", m.typ, err)
	}
	if a.Syncs > 0 && r.left {
		r.fatalf("Syncs of a client that has left")
	}
	for i := range a.Syncs {
		r.localGroup = false
		r.send(message{typ: FrontendSync, id: 0, number: r.tracker.Sent() - uint64(a.Syncs-1-i)})
	}
	if a.Resume {
		r.blocked = false
	}
	if r.blocked && r.tracker.Resume() {
		r.fatalf("a message may be offered, but no answer said so")
	}
	if (m.typ == BackendReadyForQuery) != a.Ready || (a.Ready && a.Status != m.st) {
		r.fatalf("%c is answered by %+v", m.typ, a)
	}
	if !a.Swallow {
		if m.id < 0 {
			r.fatalf("%c answers a message of ours", m.typ)
		}
	} else if m.id >= 0 && !r.left {
		r.fatalf("%c of the client's message %d is swallowed", m.typ, m.id)
	}
	r.client = append(r.client, answers...)
	return true
}

// settle lets everything happen that happens without the client, in random
// order, and the client's messages as well while it has some.
func (r *relay) settle(offers bool) {
	for {
		order := r.pick(6)
		moved := false
		for i := range 3 {
			switch (order + i) % 3 {
			case 0:
				moved = offers && r.offer()
			case 1:
				moved = r.server.step()
			case 2:
				moved = r.receive()
			}
			if moved {
				break
			}
		}
		r.check()
		if !moved {
			return
		}
	}
}

// check compares what the tracker says with what the model knows.
func (r *relay) check() {
	if r.server.dead {
		return
	}
	more := !r.server.quiet() || r.read < r.server.pushed
	if !more && r.tracker.Busy() {
		r.fatalf("the server has nothing to say, but the tracker says it is busy")
	}
	if open := r.server.open || r.server.skip || r.server.running != nil || r.localGroup; !more && r.tracker.AtBoundary() == open {
		r.fatalf("between groups: tracker %v, server %v", r.tracker.AtBoundary(), !open)
	}
	if r.tracker.Idle() && (r.server.running != nil || r.server.skip || r.read < len(r.server.out)) {
		r.fatalf("the tracker says idle, the server is not")
	}
}

// same fails unless the client got what it would have got from PostgreSQL.
func (r *relay) same(script []message, whole bool) {
	want := direct(script).out
	got := append(r.client[:len(r.client):len(r.client)], r.rest()...)
	if !whole && len(got) < len(want) {
		want = want[:len(got)]
	}
	if len(got) != len(want) {
		r.fatalf("the client got %d messages, %d from PostgreSQL: %v, want %v", len(got), len(want), got, want)
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.id == 0 {
			g.id = w.id // a Sync that was held
		}
		if g != w {
			r.fatalf("message %d is %v, from PostgreSQL %v", i, g, w)
		}
	}
}

// clients lets several clients use one backend one after the other; each may
// leave at any point.
func clients(t testing.TB, name string, pick source, n int, seen map[string]int) {
	r := newRelay(t, pick, seen)
	r.logf("%s", name)
	for range n {
		script := makeScript(pick)
		r.script, r.client, r.left, r.blocked = script, nil, false, false
		r.server.out, r.server.pushed, r.read, r.sent = nil, 0, 0, 0
		r.server.committed = nil
		if pick(3) == 0 {
			r.logf("injected")
			inject(r)
		}
		leaves := pick(3) == 0
		if leaves {
			for range pick(40) {
				switch pick(3) {
				case 0:
					r.offer()
				case 1:
					r.server.step()
				case 2:
					r.receive()
				}
			}
			r.same(script, false)
		} else {
			r.settle(true)
			if r.server.dead {
				r.same(script, true)
				return
			}
			if len(r.script) > 0 {
				r.fatalf("stuck with %d messages to send", len(r.script))
			}
			r.same(script, true)
			if owed := r.tracker.ReadyOwed(); owed != 0 {
				r.fatalf("nothing is to come, ReadyOwed says %d", owed)
			}
		}
		sent := script[:r.sent]
		alive, cancelled := recoverBackend(r)
		r.sameCommitted(sent, cancelled)
		if !alive {
			return
		}
	}
}

// sameCommitted fails unless what a client has written that is gone now is
// committed as far as PostgreSQL itself would have committed it, had the client
// sent this and left. What was cancelled may be missing.
func (r *relay) sameCommitted(sent []message, cancelled bool) {
	r.server.leave()
	want, got := direct(sent).committed, r.server.committed
	if slices.Equal(got, want) {
		return
	}
	for _, id := range got {
		if !cancelled || !slices.Contains(want, id) {
			r.fatalf("committed are %v, by PostgreSQL %v", got, want)
		}
	}
}

func inject(r *relay) {
	r.tracker.Inject(FrontendQuery)
	r.send(message{typ: FrontendQuery, id: -1, statements: []statement{{does: doesRows, count: 1}, {does: doesTag}}})
}

// recoverBackend: the client is gone; the backend comes back, or is lost.
func recoverBackend(r *relay) (alive, cancelled bool) {
	r.left, r.blocked = true, false
	r.pending, r.localGroup, r.prepared = nil, false, 0
	r.tracker.Orphan()
	number := r.tracker.Sent()
	out := r.tracker.Recover(nil)
	r.logf("recover %q", out)
	for len(out) > 0 {
		typ, size, err := PeekFrontend(out)
		if err != nil {
			r.fatalf("recover: %v", err)
		}
		c := message{typ: typ, id: -1, statements: []statement{{does: doesUndo}}}
		if kindOf[typ] != kindNone {
			number++
			c.number = number
		}
		r.send(c)
		out = out[size:]
	}
	if again := r.tracker.Recover(nil); len(again) != 0 {
		r.fatalf("a second Recover sends %q", again)
	}
	cancelled = r.pick(4) == 0 && r.cancel()
	r.settle(false)
	if r.server.dead {
		return false, cancelled
	}
	if r.tracker.Owed() != 0 || r.tracker.Status() != r.server.status {
		r.fatalf("after recovery %d answers are owed, status %c", r.tracker.Owed(), r.tracker.Status())
	}
	if r.server.status != StatusIdle {
		r.tracker.Inject(FrontendQuery)
		r.send(message{typ: FrontendQuery, id: -1, statements: []statement{{does: doesUndo}}})
		r.settle(false)
	}
	if !r.tracker.Idle() || r.server.running != nil || r.server.skip {
		r.fatalf("the backend does not come back")
	}
	r.sameOutcomes()
	return true, cancelled
}

// cancel lets a message that is not read yet fail, as a cancel request does: one
// of the open group or of those that Recover has added. One before them may end
// a block whose rest then is in none, whoever cancels.
func (r *relay) cancel() bool {
	in := r.server.in
	first := 0
	for i, c := range in {
		if c.id >= 0 && kindOf[c.typ].ready() {
			first = i + 1
		}
	}
	if first == len(in) {
		return false
	}
	c := &in[first+r.pick(len(in)-first)]
	r.logf("cancel %c %d", c.typ, c.id)
	c.fails = true
	c.statements = []statement{{does: doesError}}
	return true
}

func TestTrackerAgainstModel(t *testing.T) {
	const seeds = 4000
	seen := map[string]int{}
	for seed := range uint64(seeds) {
		rng := rand.New(rand.NewPCG(seed, 1))
		clients(t, fmt.Sprintf("seed %d", seed), rng.IntN, 3, seen)
	}
	for _, what := range relayEvents {
		if seen[what] < seeds/100 {
			t.Errorf("%q happened %d times only", what, seen[what])
		}
	}
}

// FuzzTracker takes script, order of events and departures from the input.
func FuzzTracker(f *testing.F) {
	f.Add([]byte("a client that does nothing special"))
	f.Fuzz(func(t *testing.T, data []byte) {
		clients(t, "", func(n int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % n
		}, 3, map[string]int{})
	})
}
