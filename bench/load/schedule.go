package load

import (
	"math/rand/v2"
	"time"
)

// Offer is what one class of a Group is offered.
type Offer struct {
	Rate  float64       // arrivals per second; 0: none
	After time.Duration // when the schedule begins
	Span  time.Duration // how long it lasts
}

// arrivals are the times of an Offer. They are made one by one, so that a long schedule takes no memory.
//
// Invariant: next is below end, or the schedule has ended.
type arrivals struct {
	gap       func() int64 // ns
	next, end int64        // ns since the clock of the run began
}

// newArrivals has exponential gaps, as of many clients that know nothing of each other, fixed by the seed.
func newArrivals(seed uint64, o Offer) *arrivals {
	a := &arrivals{next: int64(o.After), end: int64(o.After + o.Span)}
	if o.Rate <= 0 {
		a.stop()
		return a
	}
	random := rand.New(rand.NewPCG(seed, seed))
	a.gap = func() int64 { return int64(random.ExpFloat64() * 1e9 / o.Rate) }
	a.pass()
	return a
}

// due tells whether an arrival is to come.
func (a *arrivals) due() bool { return a.next < a.end }

// pass goes to the next arrival.
func (a *arrivals) pass() { a.next += a.gap() }

// stop ends the schedule.
func (a *arrivals) stop() { a.end = a.next }
