package engine

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// unrun are listeners whose goroutine is the test.
func unrun() *listeners {
	e := &Engine{}
	e.listeners = newListeners(e)
	e.workers = []*worker{{eng: e}}
	e.listeners.start = func(*listener) {}
	return e.listeners
}

// joined makes a loop's share of a channel and joins it.
func joined(t *testing.T, ls *listeners, key listenerKey, name string) (s *subscription, holds bool) {
	t.Helper()
	s = &subscription{w: ls.eng.workers[0], key: key, name: name}
	holds, e := ls.join(s, key, 100, 50)
	if e != nil {
		t.Fatal(e.Message)
	}
	return s, holds
}

func channelNames(batch []*channel) (all []string) {
	for _, ch := range batch {
		all = append(all, ch.name)
	}
	slices.Sort(all)
	return all
}

// A channel is listened to once, whoever wants it, and given up after the last.
func TestListenTableCounts(t *testing.T) {
	ls := unrun()
	key := listenerKey{pool: &pool{}}
	a, holds := joined(t, ls, key, "c")
	b, alsoHolds := joined(t, ls, key, "c")
	if holds || alsoHolds {
		t.Fatal("holds before LISTEN was sent")
	}
	l := a.listener
	batch := l.take(10)
	if got := channelNames(batch); !slices.Equal(got, []string{"c"}) || len(l.take(10)) != 0 {
		t.Fatalf("to be changed: %v", got)
	}
	if listens := l.begun(batch); !listens[0] {
		t.Fatal("UNLISTEN of what nobody listens to")
	}
	if told := l.settled(batch[0], true); len(told) != 2 {
		t.Fatalf("%d loops are told, want 2", len(told))
	}
	if _, holds := joined(t, ls, key, "c"); !holds {
		t.Fatal("does not hold")
	}
	if subs := l.subscribers(nil, []byte("c")); len(subs) != 3 {
		t.Fatalf("%d loops hear, want 3", len(subs))
	}
	ls.leave(a)
	ls.leave(b)
	if len(l.take(10)) != 0 {
		t.Fatal("given up before the last has left")
	}
	ls.leave(l.subscribers(nil, []byte("c"))[0])
	batch = l.take(10)
	if got := channelNames(batch); !slices.Equal(got, []string{"c"}) || l.begun(batch)[0] {
		t.Fatalf("to be given up: %v", got)
	}
	if _, holds := joined(t, ls, key, "c"); holds {
		t.Fatal("holds while UNLISTEN is under way")
	}
	if l.settled(batch[0], false); !slices.Equal(channelNames(l.take(10)), []string{"c"}) {
		t.Fatal("who came during UNLISTEN is forgotten")
	}
}

func TestListenTableDeadlines(t *testing.T) {
	ls := unrun()
	key := listenerKey{pool: &pool{}}
	a, _ := joined(t, ls, key, "a")
	l := a.listener
	if at := l.firstDeadline(); at != 150 {
		t.Errorf("the first deadline is at %d, want 150", at)
	}
	if told := l.overdue(149); len(told) != 0 {
		t.Error("told before its time")
	}
	if told := l.overdue(150); len(told) != 1 || told[0] != a {
		t.Error("not told")
	}
	if at := l.firstDeadline(); at != math.MaxInt64 {
		t.Errorf("somebody still waits until %d", at)
	}
	ls.leave(a)
	if len(l.channels) != 0 {
		t.Error("a channel without anybody stays")
	}
	b, _ := joined(t, ls, key, "b")
	l.begun(l.take(1))
	ls.leave(b)
	if at := l.firstDeadline(); at != math.MaxInt64 {
		t.Errorf("nobody waits, until %d", at)
	}
	l.dropped()
	if l.retire(l.emptyAt+9, 10) || !l.retire(l.emptyAt+10, 10) || len(ls.byKey) != 0 {
		t.Error("a listener does not retire when its time has come")
	}
}

func TestListenTableIsBounded(t *testing.T) {
	ls := unrun()
	p := &pool{}
	for i := range listenersPerPool {
		joined(t, ls, listenerKey{p, fmt.Sprint(i)}, "c")
	}
	s := &subscription{name: "c"}
	if _, e := ls.join(s, listenerKey{p, "another"}, 0, 0); e == nil || e.Code != codeProgramLimit || e.Severity != "ERROR" {
		t.Errorf("a listener beyond the bound: %v", e)
	}
	joined(t, ls, listenerKey{&pool{}, "another"}, "c")
	key := listenerKey{p, "0"}
	l := ls.byKey[key]
	for i := range listenerChannelsMax - 1 {
		joined(t, ls, key, fmt.Sprint("n", i))
	}
	if _, e := ls.join(&subscription{name: "more"}, key, 0, 0); e == nil || e.Code != codeProgramLimit || len(l.channels) != listenerChannelsMax {
		t.Errorf("a channel beyond the bound: %v", e)
	}
	// Coming and going while there is no connection leaves nothing behind.
	for _, s := range l.dropped() {
		ls.leave(s)
	}
	for range 10_000 {
		s, _ := joined(t, ls, key, "c")
		ls.leave(s)
	}
	if len(l.channels) != 0 || len(l.changes) > 1000 {
		t.Errorf("%d channels and %d changes are left", len(l.channels), len(l.changes))
	}
}

func TestListenStatementQuotes(t *testing.T) {
	for name, want := range map[string]string{
		"a": `LISTEN "a";`, `we"ird; Name`: `LISTEN "we""ird; Name";`, "": `LISTEN "";`,
	} {
		if got := string((&channel{name: name}).statement(nil, true)); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
		if got := string((&channel{name: name}).statement(nil, false)); got != "UN"+want {
			t.Errorf("%q: %s, want UN%s", name, got, want)
		}
	}
}

// The table against a model of the connection: whatever the order of joining, leaving, statements, refusals and losses, who
// was told that LISTEN holds hears, and in the end the connection listens to what is wanted and to nothing else.
func TestListenTableAgainstConnection(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		ls := unrun()
		key := listenerKey{pool: &pool{}}
		subs := map[*subscription]bool{} // true: was told that LISTEN holds
		var l *listener
		onWire := map[string]bool{} // what the connection listens to
		var batch []*channel
		var listens []bool
		step := func(quiet bool) {
			k := rnd.IntN(10)
			switch {
			case l != nil && (k < 3 || quiet) && batch == nil:
				if batch = l.take(1 + rnd.IntN(3)); batch != nil {
					listens = l.begun(batch)
				}
			case batch != nil && (k < 6 || quiet):
				for i, ch := range batch {
					if listens[i] && !quiet && rnd.IntN(8) == 0 {
						l.refused(ch)
						continue
					}
					onWire[ch.name] = listens[i]
					for _, s := range l.settled(ch, listens[i]) {
						if _, still := subs[s]; still {
							subs[s] = true
						}
					}
				}
				batch = nil
			case quiet:
			case k == 6 && l != nil && rnd.IntN(4) == 0:
				clear(onWire)
				batch = nil
				for _, s := range l.dropped() {
					subs[s] = false
				}
			case k == 7 && len(subs) > 0:
				s := slices.SortedFunc(maps.Keys(subs), func(a, b *subscription) int { return strings.Compare(a.name, b.name) })[0]
				delete(subs, s)
				ls.leave(s)
			default:
				s, holds := joined(t, ls, key, string(rune('a'+rnd.IntN(5))))
				l, subs[s] = s.listener, holds
			}
			for s, told := range subs {
				if told && !onWire[s.name] {
					t.Fatalf("seed %d: %s was told to hold and does not", seed, s.name)
				}
			}
		}
		for range 80 {
			step(false)
		}
		if l == nil {
			continue
		}
		l.again()
		for range 20 {
			step(true)
		}
		for s, told := range subs {
			if !told || !onWire[s.name] {
				t.Fatalf("seed %d: %s is wanted and does not hold", seed, s.name)
			}
		}
		for name, on := range onWire {
			if on && !slices.ContainsFunc(slices.Collect(maps.Keys(subs)), func(s *subscription) bool { return s.name == name }) {
				t.Fatalf("seed %d: %s holds and nobody wants it", seed, name)
			}
		}
		if len(l.changes) > 0 || len(l.channels) > len(subs) {
			t.Fatalf("seed %d: %d changes, %d channels are left", seed, len(l.changes), len(l.channels))
		}
	}
}

// Who comes while a connection is lost waits for the next one.
func TestListenLossEndsWhatHolds(t *testing.T) {
	ls := unrun()
	s, _ := joined(t, ls, listenerKey{pool: &pool{}}, "c")
	for _, step := range []struct {
		kind  listenEventKind
		holds bool
	}{{listenHolds, true}, {listenHeard, true}, {listenLost, false}, {listenFailed, false}, {listenHolds, true}} {
		s.listener.inFlight <- struct{}{}
		s.w.listenTold(&listenEvent{kind: step.kind, sub: s, listener: s.listener})
		if s.holds != step.holds {
			t.Errorf("after event %d: holds %v", step.kind, s.holds)
		}
		if len(s.listener.inFlight) != 0 {
			t.Error("a place is not given back")
		}
	}
}

// An event visits every client that was there when it began once, whoever leaves or comes while it is under way.
func TestListenEventVisitsEachOnce(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		ls := unrun()
		w := ls.eng.workers[0]
		s, _ := joined(t, ls, listenerKey{pool: &pool{}}, "c")
		var there []*client
		add := func() *client {
			c := &client{w: w, state: clientGone, listens: &clientListens{subs: map[*subscription]listenPlace{}}}
			c.listens.subs[s] = listenPlace{at: s.add(c)}
			there = append(there, c)
			return c
		}
		for range 20 {
			add()
		}
		visits, left, late := map[*client]int{}, map[*client]bool{}, map[*client]bool{}
		first := slices.Clone(there)
		q := &w.listens
		q.head, q.begun, q.at = &listenEvent{sub: s}, true, len(s.clients)
		for q.at > 0 {
			switch rnd.IntN(4) {
			case 0:
				late[add()] = true
			case 1:
				if len(there) > 1 {
					i := rnd.IntN(len(there))
					left[there[i]] = true
					there[i].unsubscribe(s)
					there = slices.Delete(there, i, i+1)
				}
			default:
				q.at--
				visits[s.clients[q.at]]++
			}
		}
		for _, c := range first {
			if n := visits[c]; n > 1 || n == 0 && !left[c] {
				t.Fatalf("seed %d: a client was visited %d times, left %v", seed, n, left[c])
			}
		}
		for c := range late {
			if visits[c] > 0 {
				t.Fatalf("seed %d: a client was visited that came later", seed)
			}
		}
		for i, c := range s.clients {
			if c.listens.subs[s].at != i {
				t.Fatalf("seed %d: a client has the wrong place", seed)
			}
		}
	}
}
