//go:build sim

package admission

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
)

// The simulator runs this package's own code on virtual loops in virtual time. A loop is a coroutine that may park
// between any two atomics; a seeded scheduler picks who goes on, when mail arrives and when the clock moves, so that a
// seed replays exactly. After every step the world checks the invariants (sim_check_test.go).

const ms = int64(1e6)

// world is one run.
type world struct {
	rnd            *rand.Rand
	now            int64
	seq            int
	steps          int
	park           float64 // probability of parking at a yield point
	delay          int64   // longest time in a mailbox, ns
	c              *Controller
	loops          []*vloop
	current        *vloop
	favourite      *vloop // goes on for burst more steps
	burst          int
	hosts          []*Host
	caps           []*Cap
	pools          []*simPool
	routes         []*Route // also the dead ones
	places         map[*Place]int
	clients        []*client
	last           map[*word]uint64
	lastCap        map[*budget]int
	lastConnecting map[*Host]int
	opt            swarm
	opens          int   // connects begun
	slack          int64 // the highest that fifo slack ever was
	queued         int   // waiters seen in a queue so far
	runs           map[*Route]run
	peaks          map[*peak]int
	capPeak        map[*budget]int
	reserved       map[*Route]int // highest in flight, with permits that are rolled back
	rested         map[*Route]int // highest in flight while no loop was inside a call
	drawn          []string       // what the seed came by
}

// vloop is one virtual event loop.
type vloop struct {
	w      *world
	id     int
	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
	job    func()
	busy   bool
	mail   [][]letter // by sender
	events eventHeap
}

type letter struct {
	at int64
	m  *Message
}

type event struct {
	at  int64
	seq int
	f   func()
}

type eventHeap []event

func (h eventHeap) Len() int { return len(h) }
func (h eventHeap) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].seq < h[j].seq
}
func (h eventHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *eventHeap) Push(x any)   { *h = append(*h, x.(event)) }
func (h *eventHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// violation is a broken invariant; it travels as a panic out of whatever coroutine finds it.
type violation string

func fail(format string, args ...any) { panic(violation(fmt.Sprintf(format, args...))) }

func newWorld(seed uint64, o Options) *world {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 7)), now: 1e9, park: 1, delay: ms,
		places: map[*Place]int{}, last: map[*word]uint64{}, lastCap: map[*budget]int{}, lastConnecting: map[*Host]int{},
		slack: o.FIFOSlack, runs: map[*Route]run{}, peaks: map[*peak]int{}, capPeak: map[*budget]int{},
		reserved: map[*Route]int{}, rested: map[*Route]int{},
	}
	o.Seed = seed + 1
	w.c = New(o)
	for i := range o.Loops {
		v := &vloop{w: w, id: i, mail: make([][]letter, o.Loops)}
		v.resume, v.stop = iter.Pull(v.body)
		v.resume()
		w.loops = append(w.loops, v)
		w.c.Bind(i, v)
	}
	simYield = func(always bool) {
		v := w.current
		if v == nil || !always && w.park < 1 && w.rnd.Float64() >= w.park {
			return
		}
		v.yield(struct{}{})
	}
	return w
}

// close ends the coroutines of a world at rest.
func (w *world) close() {
	simYield = nil
	for _, v := range w.loops {
		v.stop()
	}
}

func (v *vloop) body(yield func(struct{}) bool) {
	v.yield = yield
	for yield(struct{}{}) {
		v.job()
		v.busy = false
	}
}

// at runs f on loop after d.
func (w *world) at(loop int, d int64, f func()) {
	w.seq++
	heap.Push(&w.loops[loop].events, event{w.now + d, w.seq, f})
}

// chance is true with probability p.
func (w *world) chance(p float64) bool { return p > 0 && w.rnd.Float64() < p }

// upTo is a random time of at most d.
func (w *world) upTo(d int64) int64 { return w.rnd.Int64N(max(d, 1)) + 1 }

// step lets one loop go on to its next yield point, or moves the clock; false when nothing is left to do.
func (w *world) step() bool {
	w.steps++
	var ready []*vloop
	for _, v := range w.loops {
		if v.busy || v.next() <= w.now {
			ready = append(ready, v)
		}
	}
	if len(ready) == 0 || w.rnd.IntN(20) == 0 {
		if !w.tick(len(ready) > 0) {
			return len(ready) > 0
		}
		return true
	}
	v := w.pick(ready)
	if !v.busy {
		v.job = v.take()
		v.busy = true
	}
	w.current = v
	v.resume()
	w.current = nil
	w.checkWords()
	w.watch()
	if !w.anyBusy() && (len(w.places) < 40 || w.steps%16 == 0) { // a large world is walked less often
		w.checkAll()
	}
	return true
}

// pick chooses who goes on: anybody, but now and then one loop goes on for a while and leaves the others where they are.
func (w *world) pick(ready []*vloop) *vloop {
	if w.burst > 0 {
		w.burst--
		for _, v := range ready {
			if v == w.favourite {
				return v
			}
		}
	}
	v := ready[w.rnd.IntN(len(ready))]
	if w.rnd.IntN(8) == 0 {
		w.favourite, w.burst = v, w.rnd.IntN(40)
	}
	return v
}

func (w *world) anyBusy() bool {
	for _, v := range w.loops {
		if v.busy {
			return true
		}
	}
	return false
}

// tick moves the clock to the next thing to happen; while loops are at work it moves only a little.
func (w *world) tick(working bool) bool {
	next := int64(1<<63 - 1)
	for _, v := range w.loops {
		next = min(next, v.next())
	}
	if next == 1<<63-1 {
		return false
	}
	if working {
		next = min(next, w.now+ms)
	}
	if next > w.now {
		w.pass(next)
		w.now = next
	}
	return true
}

// next is when v has something to do.
func (v *vloop) next() int64 {
	next := int64(1<<63 - 1)
	if len(v.events) > 0 {
		next = v.events[0].at
	}
	for _, box := range v.mail {
		if len(box) > 0 {
			next = min(next, box[0].at)
		}
	}
	return next
}

// take picks one of the things that are due.
func (v *vloop) take() func() {
	w := v.w
	var due []int
	for from, box := range v.mail {
		if len(box) > 0 && box[0].at <= w.now {
			due = append(due, from)
		}
	}
	if n := len(due); n > 0 && (len(v.events) == 0 || v.events[0].at > w.now || w.rnd.IntN(2) == 0) {
		from := due[w.rnd.IntN(n)]
		m := v.mail[from][0].m
		v.mail[from] = v.mail[from][1:]
		return func() { w.c.Handle(v.id, w.now, m) }
	}
	return heap.Pop(&v.events).(event).f
}

// run steps until done answers true with every loop at rest, and fails if that takes more virtual time than budget.
func (w *world) run(budget int64, what string, done func() bool) {
	end := w.now + budget
	for w.anyBusy() || !done() {
		if !w.step() {
			fail("liveness: nothing left to do, but not %s", what)
		}
		if w.now > end || w.steps > 5_000_000 {
			fail("liveness: not %s within %d ms and %d steps", what, budget/ms, w.steps)
		}
	}
}
