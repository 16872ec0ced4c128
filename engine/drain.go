package engine

// Drain: the listeners stay open and answer 57P01; waiting and idle clients get
// FATAL 57P01 at a bounded rate, busy ones after their ReadyForQuery(I); at the
// deadline all of them. A transaction that is cut is counted.

// drainPerTick keeps the pace at 1 000 clients a second and loop.
const drainPerTick = 1000 / 20

// startupGrace is what a new connection has to send its startup packet during a
// drain, so that it can be told why it is refused.
const startupGrace = 1000 * ms

// drainTick closes the next few clients of a draining worker.
func (w *worker) drainTick(now int64) {
	e := w.eng
	if !e.draining.Load() {
		return
	}
	if now >= e.drainEnd.Load() {
		w.cutAll()
		return
	}
	left := drainPerTick
	for range w.all.Len() {
		c := w.all.next()
		if left == 0 || c == nil {
			break
		}
		switch c.state {
		case clientWaiting, clientLoginWait, clientIdle, clientSkipping, clientLogin, clientAuth:
			c.fatal(reasonDraining, errShutdown)
			left--
		case clientStartup, clientHandshake:
			if now-c.since >= startupGrace {
				c.close(reasonDraining)
				left--
			}
		case clientLinked:
			t := &c.srv.tracker
			if t.Idle() {
				c.fatal(reasonDraining, errShutdown)
				left--
			}
		}
	}
}

// cutAll: the deadline has passed.
func (w *worker) cutAll() {
	for range w.all.Len() {
		c := w.all.next()
		if c == nil {
			return
		}
		if c.state >= clientClosing {
			continue
		}
		if c.state == clientLinked && !c.srv.tracker.Idle() {
			w.eng.cut.Add(1)
		}
		c.fatal(reasonDraining, errShutdown)
	}
}
