package admission

// Outlook is what a request of a route would meet.
type Outlook struct {
	Verdict Verdict // Pending: it runs or waits; RouteFull, ProcessFull: refused by that queue; RouteDead: forgotten
	Runs    bool    // it gets its permit at once
	Opens   bool    // it runs, on a backend that must be opened first
	Cause   Cause   // what it would wait for if it does not run; CauseConnect if Opens
	Before  int     // waiters of the route before it
	Sheds   bool    // one of them is dropped for it
	Oldest  int64   // ns that the route's oldest waiter waits
}

// Explain tells what a request of r would meet if it came now, in ns: what Enter would decide, on a loop without idle
// backends. It reserves and changes nothing. Any goroutine; enters the pool's critical section.
func (r *Route) Explain(now int64) Outlook {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	w, pw := routeWord(r.word.load()), poolWord(p.word.load())
	o := Outlook{Before: w.waiting(), Oldest: r.oldestWait(now)}
	full := !pw.hasIdle() && (pw.size() >= int(p.max.Load()) || p.budgetFull())
	switch {
	case w.dead():
		o.Verdict = RouteDead
	case w.admits() && pw.open() && !full:
		o.Runs, o.Opens = true, !pw.hasIdle()
		o.Cause = CausePool
		if o.Opens {
			o.Cause = CauseConnect
		}
	case p.c.waiting.Load() >= p.c.maxWaiters.Load():
		o.Verdict = ProcessFull
	default:
		r.explainQueue(&o)
	}
	return o
}

// explainQueue tells how a request fares that does not run at once.
func (r *Route) explainQueue(o *Outlook) {
	switch limit := int(r.maxWaiters.Load()); {
	case o.Before < limit:
	case limit == 0 || r.policy() == RejectNew:
		o.Verdict = RouteFull
	default:
		o.Sheds = true
		o.Before--
	}
	o.Cause = r.holdsBack(o.Before)
	if _, paused := r.pauses.running(&r.pool.pauses); paused {
		o.Cause = CausePause
	}
}
