// Package reaper keeps deadlines: a hashed timing wheel with a virtual clock.
//
// It knows no clock, no goroutine and no descriptor: time is an argument
// (monotonic nanoseconds) and whoever owns a wheel calls Advance. The structure
// is Varghese and Lauck's scheme 6, hashed lists by tick modulo the number of
// slots (Hashed and Hierarchical Timing Wheels, 1987).
//
// # Lazy deadlines
//
// A deadline that changes with every query should not move its timer with every
// query. Let the owner write the new deadline into a field of its own and leave
// the timer where it is; when it fires, Fire compares the field with now and
// returns the field while that lies ahead. A timer then costs one visit per
// period, however often its deadline moved.
package reaper

// State: Wheel holds all scheduled timers in intrusive lists. Owner: exactly
// one goroutine (an event loop); nothing here is safe for concurrent use.
//
// Invariants:
//   - every scheduled timer is in exactly one list: a slot's or the work list;
//     a timer is scheduled if and only if its prev is set
//   - count = timers in all lists
//   - the work list holds what the slot of tick cur held and Advance did not
//     visit yet; cur moves only when the work list is empty
//   - a timer in a slot's list has a slot that Advance reaches no earlier than
//     its deadline and not before tick cur+1

const (
	// Tick is the wheel's resolution in nanoseconds: 10 ms. A timer fires at the
	// first tick that is not before its deadline.
	Tick = 10_000_000

	// slotCount is the number of slots: one turn takes 10.24 s. A later deadline
	// is looked at once a turn until its turn comes.
	slotCount = 1024
	slotMask  = slotCount - 1

	// visitsMax bounds the timers that one Advance looks at.
	visitsMax = 1024
)

// The mask needs a power of two.
const _ = uint(-(slotCount & slotMask))

// Handler is what a timer calls.
type Handler interface {
	// Fire is called by Advance when the deadline has been reached; now is
	// Advance's argument and never before the deadline. It returns the next
	// deadline in absolute nanoseconds, or 0 for none. It may schedule and
	// cancel any timer of the wheel, its own included, but must not call
	// Advance.
	Fire(now int64) (next int64)
}

// Timer is one deadline, to be embedded in its owner's struct: scheduling
// allocates nothing. Set Handler once before the first Schedule. It must not be
// copied or moved while scheduled.
type Timer struct {
	Handler Handler

	next *Timer
	prev **Timer // the pointer that points here; nil when not scheduled
	at   int64   // deadline, ns
}

// Init sets the handler, once, before the first Schedule.
func (t *Timer) Init(h Handler) { t.Handler = h }

// Scheduled reports whether the timer waits in a wheel.
func (t *Timer) Scheduled() bool { return t.prev != nil }

// At returns the deadline last given to Schedule, in absolute nanoseconds.
func (t *Timer) At() int64 { return t.at }

// Wheel is a hashed timing wheel. It belongs to one goroutine.
type Wheel struct {
	slots [slotCount]*Timer
	work  *Timer
	cur   int64 // the last tick whose slot has been taken
	count int
}

// NewWheel returns an empty wheel whose clock stands at now.
func NewWheel(now int64) *Wheel { return &Wheel{cur: now / Tick} }

// Len returns the number of scheduled timers.
func (w *Wheel) Len() int { return w.count }

// Schedule sets t to fire at the absolute time at, moving it if it is already
// scheduled. A deadline in the past fires with the next tick. O(1).
func (w *Wheel) Schedule(t *Timer, at int64) {
	if t.prev != nil {
		t.unlink()
	} else {
		w.count++
	}
	t.at = at
	w.place(t)
}

// ScheduleBefore makes sure that t fires no later than at: it schedules t, or
// moves it forward, and leaves an earlier deadline alone. The usual call of an
// owner with a lazy deadline. O(1), and one comparison when nothing changes.
func (w *Wheel) ScheduleBefore(t *Timer, at int64) {
	if t.prev == nil || at < t.at {
		w.Schedule(t, at)
	}
}

// Cancel takes t out of the wheel; cancelling an unscheduled timer does nothing.
// O(1).
func (w *Wheel) Cancel(t *Timer) {
	if t.prev == nil {
		return
	}
	t.unlink()
	w.count--
}

// Advance moves the clock to now and fires what is due, in the order of ticks.
// It looks at a bounded number of timers: more reports that some are left for
// another call with the same or a later now. Calls with an earlier now do not
// move the clock.
func (w *Wheel) Advance(now int64) (more bool) {
	target := now / Tick
	if w.count == 0 {
		w.cur = max(w.cur, target)
		return false
	}
	budget := visitsMax
	for {
		for w.work != nil {
			if budget == 0 {
				return true
			}
			budget--
			w.visit(w.work, now)
		}
		if w.cur >= target {
			return false
		}
		// After a long pause one turn visits every slot: skip the rest.
		w.cur = max(w.cur+1, target-slotMask)
		w.takeSlot(w.cur & slotMask)
	}
}

// visit takes t off the work list and fires it, or puts it back into its slot
// when its deadline belongs to a later turn.
func (w *Wheel) visit(t *Timer, now int64) {
	t.unlink()
	if t.at > w.cur*Tick {
		w.place(t)
		return
	}
	w.count--
	if next := t.Handler.Fire(now); next != 0 {
		w.Schedule(t, next)
	}
}

func (w *Wheel) takeSlot(slot int64) {
	w.work, w.slots[slot] = w.slots[slot], nil
	if w.work != nil {
		w.work.prev = &w.work
	}
}

func (w *Wheel) place(t *Timer) {
	tick := t.at / Tick
	if t.at%Tick > 0 {
		tick++ // never before the deadline
	}
	head := &w.slots[max(tick, w.cur+1)&slotMask]
	t.next, t.prev = *head, head
	if t.next != nil {
		t.next.prev = &t.next
	}
	*head = t
}

func (t *Timer) unlink() {
	*t.prev = t.next
	if t.next != nil {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}
