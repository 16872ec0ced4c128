package engine

// Views of what lives on the loops. Each loop is asked for a bounded number of its
// clients or backends at a time, and copies what a row is made of; rows are made
// from that on the goroutine that looks, as fast as it takes them.

import (
	"iter"
	"math"
)

// rowsPerTurn is how many items a loop is asked for at once: each costs it a system
// call, for the address, and so this many about 100 µs.
const rowsPerTurn = 128

// askAll gives what of makes of each item of a list of every loop. It goes from the
// end of a list to its beginning: an item that leaves is replaced by the last one,
// which has been asked about. Who comes meanwhile is left out; a backend that moves
// to another loop may be given twice, or not at all.
func askAll[T, F any](e *Engine, list func(*worker) []T, of func(T) (fact F, ok bool)) iter.Seq[F] {
	return func(yield func(F) bool) {
		if !e.started.Load() {
			return
		}
		facts := make([]F, 0, rowsPerTurn)
		for _, w := range e.workers {
			for at := math.MaxInt; at > 0 && !w.loop.Stopped(); {
				facts = facts[:0]
				turn := func(w *worker) bool {
					items := list(w)
					at = min(at, len(items))
					for n := rowsPerTurn; at > 0 && n > 0; n-- {
						at--
						if fact, ok := of(items[at]); ok {
							facts = append(facts, fact)
						}
					}
					return false
				}
				if !w.submit(turn).waitUnless(w, func() bool { return !w.turns(e.turnBound) }) {
					if !w.loop.Stopped() { // turn may run still, on what it was given here
						return
					}
					break
				}
				for _, fact := range facts {
					if !yield(fact) {
						return
					}
				}
			}
		}
	}
}

func askClients[F any](e *Engine, of func(*client) (F, bool)) iter.Seq[F] {
	return askAll(e, func(w *worker) []*client { return w.all.items }, of)
}

func askServers[F any](e *Engine, of func(*server) (F, bool)) iter.Seq[F] {
	return askAll(e, func(w *worker) []*server { return w.servers.items }, of)
}
