package engine

// How long requests wait, and how they fared, by label.
//
// A label is a route's name, or database/user/application_name/class. Labels are
// bounded: when there are too many, one without a live route makes room, and is
// summed under "other" from then on; without such a one the newcomer is. What a
// label has counted outlives its routes, so the sums never fall.
//
// Owner: a waitHistogram has one writer: its loop, or whoever holds the table's
// mutex for the one behind the last loop's; anybody may read it. retired is
// atomic; routes changes under the table's mutex, which is entered when a route
// is made or forgotten.

import (
	"sync"
	"sync/atomic"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/engine/reactor"
)

const (
	// maxLabels bounds the labels of routes, "other" not counted.
	maxLabels  = 200
	otherLabel = "other"
)

// waitBoundsMs are the upper bounds of a wait histogram's buckets; a last one is
// without a bound.
var waitBoundsMs = [...]float64{
	0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000,
}

type waitHistogram struct {
	buckets [len(waitBoundsMs) + 1]counter
	sum     counter // ns
}

// boundsNs are waitBoundsMs in ns.
var boundsNs = func() (ns [len(waitBoundsMs)]int64) {
	for i, bound := range waitBoundsMs {
		ns[i] = int64(bound * float64(ms))
	}
	return ns
}()

func (h *waitHistogram) observe(ns int64) {
	i := 0
	for i < len(boundsNs) && ns > boundsNs[i] {
		i++
	}
	h.buckets[i].inc()
	h.sum.add(uint64(ns))
}

// outcomes is how many ways a request may fare.
const outcomes = int(admission.Drained) + 1

// routeStats is what is counted under one label.
type routeStats struct {
	label   string
	routes  int                               // live ones
	graves  int                               // those in statsTable.graves
	retired [outcomes]atomic.Uint64           // what routes that are gone have counted
	waits   [][admission.Causes]waitHistogram // by loop, and one for labels that made room
	whole   []waitHistogram                   // the same of whole waits, whatever the causes

	durations [][durationKinds]waitHistogram // of requests that had a backend, likewise
}

// What is measured of requests that have a backend.
const (
	durationQuery = iota // from a cycle's first message to its ReadyForQuery
	durationXact         // from a transaction's first message to the ReadyForQuery that ends it
	durationKinds
)

// waited takes how long a request of the route waited, split by cause. On the
// loop with that number; whole is their sum.
func (s *routeStats) waited(loop int, spent [admission.Causes]int64) (whole int64) {
	for cause, ns := range spent {
		if ns > 0 {
			s.waits[loop][cause].observe(ns)
			whole += ns
		}
	}
	s.whole[loop].observe(whole)
	return whole
}

// absorb takes over what a label has counted that makes room; t.mu is held.
func (s *routeStats) absorb(old *routeStats) {
	for o := range s.retired {
		s.retired[o].Add(old.retired[o].Load())
	}
	mine := &s.waits[len(s.waits)-1]
	for i := range old.waits {
		for cause := range mine {
			mine[cause].absorb(&old.waits[i][cause])
		}
		s.whole[len(s.whole)-1].absorb(&old.whole[i])
		for k := range durationKinds {
			s.durations[len(s.durations)-1][k].absorb(&old.durations[i][k])
		}
	}
}

func (h *waitHistogram) absorb(old *waitHistogram) {
	for b := range h.buckets {
		h.buckets[b].add(old.buckets[b].v.Load())
	}
	h.sum.add(old.sum.v.Load())
}

type statsTable struct {
	mu     sync.Mutex
	loops  int
	labels map[string]*routeStats
	other  *routeStats
	graves []grave // oldest first; views_graves.go

	peakInFlight, peakWaiting int // the highest of a route that is gone
}

func newStatsTable(loops int) *statsTable {
	t := &statsTable{loops: loops, labels: map[string]*routeStats{}}
	t.other = t.make(otherLabel)
	return t
}

func (t *statsTable) make(label string) *routeStats {
	return &routeStats{
		label: label, waits: make([][admission.Causes]waitHistogram, t.loops+1), whole: make([]waitHistogram, t.loops+1),
		durations: make([][durationKinds]waitHistogram, t.loops+1),
	}
}

// join gives the statistics of a new route with this label.
func (t *statsTable) join(label string) *routeStats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.labels[label]
	if s == nil && (len(t.labels) < maxLabels || t.makeRoom(reactor.Now())) {
		s = t.make(label)
		t.labels[label] = s
	}
	if s == nil {
		s = t.other
	}
	s.routes++
	return s
}

// makeRoom sums a label without routes under "other".
func (t *statsTable) makeRoom(now int64) bool {
	t.closeGraves(now)
	for label, s := range t.labels {
		if s.routes == 0 && s.graves == 0 {
			t.other.absorb(s)
			delete(t.labels, label)
			return true
		}
	}
	return false
}

func newHistogram() view.Histogram {
	return view.Histogram{BoundsMs: waitBoundsMs[:], Counts: make([]uint64, len(waitBoundsMs)+1)}
}

// byCause gives what all loops have observed, split by cause; the zero Histogram of
// a cause for which nobody has waited, as of most.
func (s *routeStats) byCause() (all [admission.Causes]view.Histogram) {
	for i := range s.waits {
		for cause := range all {
			k := &s.waits[i][cause]
			if k.empty() {
				continue
			}
			if all[cause].Counts == nil {
				all[cause] = newHistogram()
			}
			k.addTo(&all[cause])
		}
	}
	return all
}

func (k *waitHistogram) empty() bool {
	for b := range k.buckets {
		if k.buckets[b].v.Load() > 0 {
			return false
		}
	}
	return true
}

// wholeWaits gives what all loops have observed of whole waits.
func (s *routeStats) wholeWaits() view.Histogram {
	h := newHistogram()
	for i := range s.whole {
		s.whole[i].addTo(&h)
	}
	return h
}

// addTo adds what has been observed to h.
func (k *waitHistogram) addTo(h *view.Histogram) {
	for b := range k.buckets {
		h.Counts[b] += k.buckets[b].v.Load()
	}
	h.SumMs += float64(k.sum.v.Load()) / float64(ms)
}

// took gives what all loops have observed of a kind of duration.
func (s *routeStats) took(kind int) view.Histogram {
	h := newHistogram()
	for i := range s.durations {
		s.durations[i][kind].addTo(&h)
	}
	return h
}

// all gives what has been observed under all labels together.
func (t *statsTable) all() (took [durationKinds]view.Histogram, waits view.Histogram) {
	t.mu.Lock()
	defer t.mu.Unlock()
	waits = newHistogram()
	for kind := range took {
		took[kind] = newHistogram()
	}
	add := func(s *routeStats) {
		for i := range s.whole {
			s.whole[i].addTo(&waits)
			for kind := range took {
				s.durations[i][kind].addTo(&took[kind])
			}
		}
	}
	for _, s := range t.labels {
		add(s)
	}
	add(t.other)
	return took, waits
}
