package admission

// State: how long a waiter waited, by cause: spent up to mark, and from then on for cause, less what its queue stood
// still meanwhile.
// Owner: the critical section of its route's pool; once told, the waiter's loop.
// Invariants: Σ spent = mark − Since; mark never moves back; only a queued waiter stands still, and a route's still time
// is looked at twice, when the waiter is queued and when it leaves the queue, so a pause or a resume visits no waiter.

// Cause says what a request waits for.
type Cause uint8

// The causes. That of a queued waiter is judged when it is queued: what held it back then counts until it leaves the
// queue, except for the time of pauses.
const (
	CauseRoute   Cause       = iota // the route's in-flight limit, for itself or for those before it
	CausePool                       // the pool is at its maximum, or its backend is on the way from another loop
	CauseHost                       // a full host, database or user
	CauseConnect                    // has its permit and waits for a connect
	CausePause                      // its route, its pool or the process is paused
	Causes       = int(iota)        // how many there are
)

var causeNames = [Causes]string{"route", "pool", "host", "connect", "pause"}

// String is the cause's name in metrics and views.
func (c Cause) String() string {
	if int(c) < len(causeNames) {
		return causeNames[c]
	}
	return "unknown"
}

// Spent is how long w waited up to now, in ns, by cause; the sum is now − Since. Called on w's loop while w is pending,
// that is before Controller.Leave, or inside Driver.Link and Driver.End.
func (w *Waiter) Spent(now int64) [Causes]int64 {
	if !w.told {
		p := w.Route.pool
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	return w.account(now)
}

// account is w's time up to now.
func (w *Waiter) account(now int64) [Causes]int64 {
	spent := w.spent
	if now >= w.mark {
		w.book(&spent, now)
		return spent
	}
	// Another loop's clock, which moved w on, is ahead of this one's.
	ahead := w.mark - now
	for c := range spent {
		n := min(spent[c], ahead)
		spent[c] -= n
		ahead -= n
	}
	return spent
}

// Paused tells whether w stands still in its queue because of a pause at this moment, for how long it did so
// altogether (Spent's CausePause), in ns, and since when, if it does (pauses of the route, the pool and the process that touch or overlap are
// one). Called where Spent is.
func (w *Waiter) Paused(now int64) (standsStill bool, total, since int64) {
	if !w.told {
		p := w.Route.pool
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	total = w.account(now)[CausePause]
	if w.state != waiterQueued {
		return false, total, 0
	}
	if began, on := w.Route.pauses.running(&w.Route.pool.pauses); on {
		return true, total, min(max(began, w.Since), now)
	}
	return false, total, 0
}

// begin starts w's account at now.
func (w *Waiter) begin(r *Route, now int64) {
	w.Route, w.Since = r, now
	w.spent, w.mark, w.told = [Causes]int64{}, now, false
}

// turn books w's time so far and lets it wait on in another state, for cause. now is the pool's.
func (w *Waiter) turn(now int64, to waiterState, cause Cause) {
	if w.state != waiterFree && now > w.mark {
		w.book(&w.spent, now)
		w.mark = now
	}
	w.state, w.cause = to, cause
	if to == waiterQueued {
		w.stillThen = w.Route.pauses.total(&w.Route.pool.pauses, w.mark)
	}
}

// book adds the time from w.mark to now.
func (w *Waiter) book(spent *[Causes]int64, now int64) {
	waited := now - w.mark
	if w.state == waiterQueued {
		still := w.still(now)
		spent[CausePause] += still
		waited -= still
	}
	spent[w.cause] += waited
}

// still is for how long w's queue stood still since w.mark.
func (w *Waiter) still(now int64) int64 {
	n := w.Route.pauses.total(&w.Route.pool.pauses, now) - w.stillThen
	return max(min(n, now-w.mark), 0)
}

// holdsBack is what a request with so many waiters of r before it waits for, pauses apart. In the critical section.
func (r *Route) holdsBack(before int) Cause {
	w, p := routeWord(r.word.load()), r.pool
	if w.inFlight()+before >= w.limit() {
		return CauseRoute
	}
	if pw := poolWord(p.word.load()); !pw.hasIdle() && pw.size() < int(p.max.Load()) && p.budgetFull() {
		return CauseHost
	}
	return CausePool
}

// budgetFull tells whether the host, the database or the user has no place for p.
func (p *Pool) budgetFull() bool {
	for _, s := range p.home.all {
		s.b.mu.Lock()
		full := s.credit == 0 && s.b.size >= s.b.max
		s.b.mu.Unlock()
		if full {
			return true
		}
	}
	return false
}
