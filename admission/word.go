package admission

import "sync/atomic"

// State: the two words of admission, packed so that one compare-and-swap sees and changes all of it.
// Owner: any loop, by compare-and-swap only.
// Invariants: no field leaves its range, since each CAS checks its bound first (see the Max constants):
//   in flight < limit ≤ MaxInFlight before it is raised; waiting < maxWaiters ≤ MaxWaiters;
//   size < max ≤ MaxPoolSize; used ≤ size; holders ≤ used; eligible ≤ routes of the pool ≤ MaxRoutes.
// Flips of a route's eligibility, and every change of holders and eligible, happen inside the pool's critical section.

// Largest values that the words can hold; larger options are a caller's bug.
const (
	MaxInFlight = 1<<16 - 1 // permits of one route
	MaxWaiters  = 1<<24 - 1 // waiters of one route
	MaxPoolSize = 1<<14 - 1 // places of one pool
	MaxRoutes   = 1<<18 - 1 // routes of one pool
	MaxWeight   = 1 << 16   // weight of a route
	MaxLoops    = 256
)

// word is one shared 64-bit word.
type word struct{ v atomic.Uint64 }

func (w *word) load() uint64 {
	yield()
	return w.v.Load()
}

func (w *word) cas(old, updated uint64) bool {
	yield()
	return w.v.CompareAndSwap(old, updated)
}

// routeWord: bits 0–15 in flight, 16–31 limit, 32–55 waiting, 56 paused, 57 dead.
type routeWord uint64

const (
	oneInFlight  routeWord = 1
	limitShift             = 16
	oneWaiting   routeWord = 1 << 32
	routePaused  routeWord = 1 << 56
	routeDead    routeWord = 1 << 57
	routeLimits  routeWord = MaxInFlight << limitShift
	routeWaiters routeWord = MaxWaiters << 32
)

func (w routeWord) inFlight() int  { return int(w & MaxInFlight) }
func (w routeWord) limit() int     { return int(w >> limitShift & MaxInFlight) }
func (w routeWord) waiting() int   { return int(w >> 32 & MaxWaiters) }
func (w routeWord) paused() bool   { return w&routePaused != 0 }
func (w routeWord) dead() bool     { return w&routeDead != 0 }
func (w routeWord) hasRoom() bool  { return w.inFlight() < w.limit() }
func (w routeWord) eligible() bool { return w.waiting() > 0 && w.hasRoom() && !w.paused() }

// admits tells whether a newcomer may take a permit: room, and nobody to overtake.
func (w routeWord) admits() bool {
	return w.hasRoom() && w&(routeWaiters|routePaused|routeDead) == 0
}

// carries tells whether a permit may go on from a finished request to the same client's next: nobody waits for it, and
// neither a pause nor a lowered limit wants it back.
func (w routeWord) carries() bool {
	return w&(routeWaiters|routePaused) == 0 && w.inFlight() <= w.limit()
}

func (w routeWord) withLimit(n int) routeWord {
	return w&^routeLimits | routeWord(n)<<limitShift
}

// poolWord: bits 0–13 size, 14–27 used, 28–41 holders, 42–59 eligible routes, 60 paused, 61 paused with the whole
// process, 62 asked (a starving pool or a lowered limit wants a place of this one).
type poolWord uint64

const (
	onePlace      poolWord = 1
	oneUsed       poolWord = 1 << 14
	oneHolder     poolWord = 1 << 28
	oneEligible   poolWord = 1 << 42
	poolEligible  poolWord = MaxRoutes << 42
	poolHolders   poolWord = MaxPoolSize << 28
	poolPaused    poolWord = 1 << 60
	processPaused poolWord = 1 << 61
	poolAsked     poolWord = 1 << 62
)

func (w poolWord) size() int     { return int(w & MaxPoolSize) }
func (w poolWord) used() int     { return int(w >> 14 & MaxPoolSize) }
func (w poolWord) holders() int  { return int(w >> 28 & MaxPoolSize) }
func (w poolWord) eligible() int { return int(w >> 42 & MaxRoutes) }
func (w poolWord) paused() bool  { return w&(poolPaused|processPaused) != 0 }
func (w poolWord) asked() bool   { return w&poolAsked != 0 }
func (w poolWord) hasIdle() bool { return w.used() < w.size() }

// open tells whether a newcomer of some route may take a place: no eligible route to overtake, no pause.
func (w poolWord) open() bool {
	return w&(poolEligible|poolPaused|processPaused) == 0
}

// serves tells whether some waiter of the pool may be given a permit.
func (w poolWord) serves() bool { return w&poolEligible != 0 && !w.paused() }

// rests tells whether a freed place may simply become idle.
func (w poolWord) rests() bool { return w&(poolHolders|poolAsked) == 0 && !w.serves() }
