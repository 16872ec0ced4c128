package engine

// What the tests of routes look at from outside: counters by label, everything that must be at rest, where a client lives.

import (
	"fmt"

	"pgkinetic/admission"
	"pgkinetic/admission/routing"
)

// Tally is what the routes under one label show together.
type Tally struct {
	Routes                      int // live ones
	InFlight, Waiting           int
	Limit, MaxWaiters           int // of one of them
	Admitted, Queued, Rejected  uint64
	TimedOut, Canceled          uint64
	Disconnected, Shed, Drained uint64
	PeakInFlight, PeakWaiting   int // the highest of one of them
}

func (t *Tally) add(of func(admission.Outcome) uint64) {
	t.Admitted += of(admission.Admitted)
	t.Queued += of(admission.Queued)
	t.Rejected += of(admission.Rejected)
	t.TimedOut += of(admission.TimedOut)
	t.Canceled += of(admission.Canceled)
	t.Disconnected += of(admission.Disconnected)
	t.Shed += of(admission.Shed)
	t.Drained += of(admission.Drained)
}

// Tallies reads every label, the ones whose routes are gone included. Any goroutine.
func (e *Engine) Tallies() map[string]Tally {
	all := map[string]Tally{}
	r := e.registry
	r.routes.EachAfter(func() {
		r.stats.mu.Lock()
		defer r.stats.mu.Unlock()
		for label, s := range r.stats.labels {
			t := Tally{}
			t.add(func(o admission.Outcome) uint64 { return s.retired[o].Load() })
			all[label] = t
		}
	}, func(_ *pool, _ routing.Identity, rt *route) {
		t := all[rt.stats.label]
		n := rt.adm.Counts()
		t.Routes++
		t.InFlight += n.InFlight
		t.Waiting += n.Waiting
		t.Limit, t.MaxWaiters = n.Limit, n.MaxWaiters
		t.PeakInFlight, t.PeakWaiting = max(t.PeakInFlight, n.PeakInFlight), max(t.PeakWaiting, n.PeakWaiting)
		t.add(rt.adm.Count)
		all[rt.stats.label] = t
	})
	return all
}

// Tally reads one label; the zero Tally if there is none.
func (e *Engine) Tally(label string) Tally { return e.Tallies()[label] }

// RouteCounts counts the live routes, overflow routes left out, and those.
func (e *Engine) RouteCounts() (ordinary, overflows int) {
	n := e.registry.routes.Counts()
	return n.Routes, n.Overflows
}

// Unrest names every gauge of admission that is not zero; nothing while no request runs or waits.
func (e *Engine) Unrest() (all []string) {
	note := func(what string, n int) {
		if n != 0 {
			all = append(all, fmt.Sprintf("%s %d", what, n))
		}
	}
	note("waiters of the process", e.adm.Waiting())
	for label, t := range e.Tallies() {
		note("in flight on "+label, t.InFlight)
		note("waiting on "+label, t.Waiting)
	}
	e.adm.EachPool(func(p *admission.Pool) {
		n, name := p.Counts(), fmt.Sprint(p.Owner.(*pool).names())
		note("used in "+name, n.Used)
		note("holders in "+name, n.Holders)
		note("eligible in "+name, n.Eligible)
		note("waiting in "+name, n.Waiting)
		note("connecting in "+name, n.Connecting)
		note("closing in "+name, n.Closing)
	})
	return all
}

// LoopOf is the loop on which a client lives, by the process number that it was told at login.
func LoopOf(pid uint32) int { return int(pid >> 16 & 0xff) }
