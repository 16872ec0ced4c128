package reaper

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// probe is a timer that tells when it fired and what it should answer.
type probe struct {
	Timer
	firedAt []int64
	onFire  func(now int64) int64
}

func newProbe() *probe {
	p := &probe{}
	p.Init(p)
	return p
}

func (p *probe) Fire(now int64) int64 {
	p.firedAt = append(p.firedAt, now)
	if p.onFire == nil {
		return 0
	}
	return p.onFire(now)
}

// advance calls Advance until nothing due is left and returns the calls.
func advance(w *Wheel, now int64) (calls int) {
	for calls = 1; w.Advance(now); calls++ {
	}
	return calls
}

func TestFiresAtTheFirstTickNotBeforeTheDeadline(t *testing.T) {
	f := func(start, at, early, due int64) {
		t.Helper()
		w := NewWheel(start)
		p := newProbe()
		w.Schedule(&p.Timer, at)
		advance(w, early)
		if len(p.firedAt) != 0 || !p.Scheduled() || p.At() != at {
			t.Fatalf("start %d at %d: fired early, at %d", start, at, early)
		}
		advance(w, due)
		if len(p.firedAt) != 1 || p.firedAt[0] != due || p.Scheduled() || w.Len() != 0 {
			t.Fatalf("start %d at %d: not fired at %d: %v", start, at, due, p.firedAt)
		}
	}
	f(0, 1, 0, Tick)
	f(0, Tick, Tick-1, Tick)
	f(0, Tick+1, 2*Tick-1, 2*Tick)
	f(7*Tick, 7*Tick+5, 8*Tick-1, 8*Tick)
	// a deadline that is already over: with the next tick
	f(100*Tick, 3, 101*Tick-1, 101*Tick)
	f(100*Tick, 100*Tick, 101*Tick-1, 101*Tick)
	// more than one turn ahead
	f(0, slotCount*Tick, slotCount*Tick-1, slotCount*Tick)
	f(5, 10*slotCount*Tick+3, 10*slotCount*Tick+2, (10*slotCount+1)*Tick)
	// a pause of many turns
	f(0, 3*slotCount*Tick, 3*slotCount*Tick-1, 1000*slotCount*Tick+17)
	f(0, 1, 0, math.MaxInt64)
}

func TestDeadlineAtTheEndOfTimeNeverFires(t *testing.T) {
	w := NewWheel(0)
	p := newProbe()
	w.Schedule(&p.Timer, math.MaxInt64)
	for now := int64(0); now < 3*slotCount*Tick; now += 100 * Tick {
		advance(w, now)
	}
	if len(p.firedAt) != 0 || w.Len() != 1 {
		t.Fatalf("fired %v, %d pending", p.firedAt, w.Len())
	}
}

func TestCancelAndMove(t *testing.T) {
	w := NewWheel(0)
	a, b := newProbe(), newProbe()
	w.Cancel(&a.Timer) // not scheduled: nothing
	w.Schedule(&a.Timer, 5*Tick)
	w.Schedule(&b.Timer, 5*Tick)
	w.Cancel(&a.Timer)
	w.Cancel(&a.Timer)
	w.Schedule(&b.Timer, 9*Tick)
	if w.Len() != 1 || a.Scheduled() {
		t.Fatalf("%d pending, cancelled one scheduled: %v", w.Len(), a.Scheduled())
	}
	advance(w, 8*Tick)
	if len(a.firedAt)+len(b.firedAt) != 0 {
		t.Fatal("a cancelled or moved timer fired")
	}
	advance(w, 9*Tick)
	if len(b.firedAt) != 1 || len(a.firedAt) != 0 || w.Len() != 0 {
		t.Fatalf("a %v b %v, %d pending", a.firedAt, b.firedAt, w.Len())
	}
}

func TestScheduleBeforeOnlyMovesForward(t *testing.T) {
	w := NewWheel(0)
	p := newProbe()
	for _, c := range []struct{ at, want int64 }{{50 * Tick, 50 * Tick}, {70 * Tick, 50 * Tick}, {20 * Tick, 20 * Tick}} {
		w.ScheduleBefore(&p.Timer, c.at)
		if p.At() != c.want || w.Len() != 1 {
			t.Fatalf("before %d: deadline %d, want %d; %d pending", c.at, p.At(), c.want, w.Len())
		}
	}
	advance(w, 20*Tick)
	if len(p.firedAt) != 1 || w.Len() != 0 {
		t.Fatalf("fired %v, %d pending", p.firedAt, w.Len())
	}
}

func TestFireReturnsTheNextDeadline(t *testing.T) {
	w := NewWheel(0)
	p := newProbe()
	p.onFire = func(now int64) int64 {
		if now < 30*Tick {
			return now + 10*Tick
		}
		return 0
	}
	w.Schedule(&p.Timer, 10*Tick)
	for tick := int64(1); tick <= 50; tick++ {
		advance(w, tick*Tick)
	}
	if want := []int64{10 * Tick, 20 * Tick, 30 * Tick}; !slices.Equal(p.firedAt, want) {
		t.Fatalf("fired at %v, want %v", p.firedAt, want)
	}
}

// TestAnswerInThePastDoesNotSpin: a handler that always wants to run again runs
// once a tick.
func TestAnswerInThePastDoesNotSpin(t *testing.T) {
	w := NewWheel(0)
	p := newProbe()
	p.onFire = func(int64) int64 { return 1 }
	w.Schedule(&p.Timer, 1)
	for tick := int64(1); tick <= 20; tick++ {
		advance(w, tick*Tick)
	}
	if len(p.firedAt) != 20 {
		t.Fatalf("fired %d times in 20 ticks", len(p.firedAt))
	}
}

// TestHandlerMayTouchOtherTimers: those of the same tick are on the work list
// then.
func TestHandlerMayTouchOtherTimers(t *testing.T) {
	w := NewWheel(0)
	probes := make([]*probe, 3)
	for i := range probes {
		probes[i] = newProbe()
		probes[i].onFire = func(now int64) int64 {
			w.Cancel(&probes[(i+1)%3].Timer)
			w.Schedule(&probes[(i+2)%3].Timer, now+5*Tick)
			return 0
		}
		w.Schedule(&probes[i].Timer, Tick)
	}
	advance(w, Tick)
	fired := 0
	for _, p := range probes {
		fired += len(p.firedAt)
	}
	if fired != 1 || w.Len() != 1 {
		t.Fatalf("%d fired, %d pending", fired, w.Len())
	}
}

func TestAdvanceIsBounded(t *testing.T) {
	const timers = 5*visitsMax + 1
	w := NewWheel(0)
	fired := 0
	for range timers {
		p := newProbe()
		p.onFire = func(int64) int64 { fired++; return 0 }
		w.Schedule(&p.Timer, Tick)
	}
	w.Advance(Tick)
	if fired != visitsMax {
		t.Fatalf("one call fired %d of %d", fired, timers)
	}
	late := newProbe() // scheduled while the tick is half done
	w.Schedule(&late.Timer, Tick)
	if calls := advance(w, Tick); calls != 5 || fired != timers {
		t.Fatalf("%d further calls, %d fired", calls, fired)
	}
	if len(late.firedAt) != 0 {
		t.Fatal("a timer of the current tick fired in it")
	}
	advance(w, 2*Tick)
	if len(late.firedAt) != 1 || w.Len() != 0 {
		t.Fatalf("late one fired %v, %d pending", late.firedAt, w.Len())
	}
}

// TestAgainstSortedList runs random operations on the wheel and on the plainest
// model there is: a list of deadlines, searched from end to end.
func TestAgainstSortedList(t *testing.T) {
	for seed := range uint64(300) {
		modelRun(t, seed)
	}
}

type model struct {
	t       *testing.T
	seed    uint64
	rnd     *rand.Rand
	wheel   *Wheel
	now     int64
	probes  []*probe
	due     []int64 // deadline of probes[i], 0 when not scheduled
	earlier []int64 // tick before which probes[i] cannot be looked at
}

func modelRun(t *testing.T, seed uint64) {
	m := &model{t: t, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1))}
	m.now = m.rnd.Int64N(1 << 50)
	m.wheel = NewWheel(m.now)
	count := 1 + m.rnd.IntN(60)
	m.due, m.earlier = make([]int64, count), make([]int64, count)
	for i := range count {
		p := newProbe()
		p.onFire = func(now int64) int64 { return m.fired(i, now) }
		m.probes = append(m.probes, p)
	}
	for range 400 {
		m.step()
	}
}

func (m *model) step() {
	i := m.rnd.IntN(len(m.probes))
	switch m.rnd.IntN(5) {
	case 0, 1:
		m.set(i, m.deadline())
		m.wheel.Schedule(&m.probes[i].Timer, m.due[i])
	case 2:
		m.wheel.Cancel(&m.probes[i].Timer)
		m.due[i] = 0
	default:
		m.now += m.pause()
		advance(m.wheel, m.now)
		for j, at := range m.due {
			if at != 0 && m.firstTick(j) <= m.now/Tick {
				m.t.Fatalf("seed %d: timer %d due at %d not fired at %d", m.seed, j, at, m.now)
			}
		}
	}
	pending := 0
	for j, at := range m.due {
		if (at != 0) != m.probes[j].Scheduled() {
			m.t.Fatalf("seed %d: timer %d scheduled: %v, deadline %d", m.seed, j, m.probes[j].Scheduled(), at)
		}
		if at != 0 {
			pending++
		}
	}
	if pending != m.wheel.Len() {
		m.t.Fatalf("seed %d: Len %d, want %d", m.seed, m.wheel.Len(), pending)
	}
}

func (m *model) set(i int, at int64) {
	m.due[i] = at
	m.earlier[i] = m.wheel.cur + 1
}

// firstTick is the tick with which timer i must fire.
func (m *model) firstTick(i int) int64 {
	return max((m.due[i]+Tick-1)/Tick, m.earlier[i])
}

func (m *model) fired(i int, now int64) int64 {
	if now != m.now {
		m.t.Fatalf("seed %d: fired with now %d, want %d", m.seed, now, m.now)
	}
	if m.due[i] == 0 || m.due[i] > now || m.firstTick(i) > now/Tick {
		m.t.Fatalf("seed %d: timer %d with deadline %d fired at %d", m.seed, i, m.due[i], now)
	}
	if m.rnd.IntN(3) > 0 {
		m.due[i] = 0
		return 0
	}
	m.set(i, m.deadline())
	return m.due[i]
}

// deadline is near, far or over.
func (m *model) deadline() int64 {
	switch m.rnd.IntN(4) {
	case 0:
		return m.now - m.rnd.Int64N(100*Tick) + 50*Tick
	case 1:
		return m.now + m.rnd.Int64N(3*slotCount*Tick)
	case 2:
		return m.now + m.rnd.Int64N(1000*slotCount*Tick)
	}
	return m.now/Tick*Tick + m.rnd.Int64N(5)*Tick // on the edge of a tick
}

func (m *model) pause() int64 {
	switch m.rnd.IntN(10) {
	case 0:
		return m.rnd.Int64N(50 * slotCount * Tick)
	case 1, 2:
		return m.rnd.Int64N(slotCount * Tick)
	}
	return m.rnd.Int64N(5 * Tick)
}
