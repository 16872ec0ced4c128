package engine

// Routes that have died a moment ago. A route is forgotten when nobody is in
// flight or waits there, but a notice that somebody was shed may still travel, and
// a refusal may be about to count: such late counts are collected here, so that no
// sum ever falls. And the peaks of routes that are gone.
//
// Owner: the statistics' mutex.
//
// Invariants: a grave's counted is what its label's retired holds of it; a label
// with graves does not make room.

import (
	"pgkinetic/admission"
)

// grave is a dead route whose counters may still move.
type grave struct {
	route   *route
	counted [outcomes]uint64
	at      int64 // ns, when it died
}

const (
	graveRest = 1000 * ms // far longer than any message travels
	gravesMax = 4096
)

// bury ends the part in its label of a route that has just been forgotten: what it
// has counted so far is added to the label's retired, and what it counts late will
// be. Inside the directory's mutex, like everything that changes retired.
func (t *statsTable) bury(rt *route, now int64, counted [outcomes]uint64) {
	for o, n := range counted {
		rt.stats.retired[o].Add(n)
	}
	n := rt.adm.Counts()
	t.mu.Lock()
	defer t.mu.Unlock()
	rt.stats.routes--
	t.peakInFlight, t.peakWaiting = max(t.peakInFlight, n.PeakInFlight), max(t.peakWaiting, n.PeakWaiting)
	rt.stats.graves++
	t.graves = append(t.graves, grave{route: rt, counted: counted, at: now})
	t.closeGraves(now)
}

// closeGraves forgets routes that have been dead for long enough, or that are too
// many. t.mu is held, inside the directory's mutex.
func (t *statsTable) closeGraves(now int64) {
	for len(t.graves) > gravesMax || len(t.graves) > 0 && now-t.graves[0].at >= graveRest {
		t.graves[0].settle()
		t.graves[0].route.stats.graves--
		t.graves[0] = grave{}
		t.graves = t.graves[1:]
	}
}

// settle adds what was counted late. t.mu is held.
func (g *grave) settle() {
	for o := range g.counted {
		n := g.route.adm.Count(admission.Outcome(o))
		g.route.stats.retired[o].Add(n - g.counted[o])
		g.counted[o] = n
	}
}

// settle brings the sums of all graves up to date. t.mu is held.
func (t *statsTable) settle() {
	for i := range t.graves {
		t.graves[i].settle()
	}
}
