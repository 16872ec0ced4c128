package engine

// A worker as admission's Driver: what admission decides is carried out here, on
// the loop that it concerns.

import (
	"sync/atomic"

	"pgkinetic/admission"
	"pgkinetic/engine/reactor"
)

// mail is the inbox of admission's messages from other loops: a stack that any
// worker pushes on and the owner takes whole. Who pushes onto the empty stack
// posts wake; the owner takes the stack exactly once for each wake that arrives,
// so wake is never posted while it is still queued.
type mail struct {
	head  atomic.Pointer[admission.Message]
	wake  reactor.Message
	woken bool               // owner: a wake has arrived, its stack is not taken yet
	rest  *admission.Message // owner: taken, not yet handled
}

// mailPerTurn bounds what one turn handles.
const mailPerTurn = 256

// Post puts m into the inbox of worker to.
func (w *worker) Post(to int, m *admission.Message) {
	if to != w.id {
		w.stats.messages.inc()
	}
	peer := w.eng.workers[to]
	for {
		old := peer.mail.head.Load()
		m.Next = old
		if peer.mail.head.CompareAndSwap(old, m) {
			if old == nil {
				peer.loop.Post(&peer.mail.wake)
			}
			return
		}
	}
}

// takeMail handles admission's messages, oldest first, a bounded number.
func (w *worker) takeMail() {
	for range mailPerTurn {
		if w.mail.rest == nil && w.mail.woken {
			w.mail.woken = false
			w.mail.rest = reverse(w.mail.head.Swap(nil))
		}
		m := w.mail.rest
		if m == nil {
			return
		}
		w.mail.rest = m.Next
		m.Next = nil
		w.adm.Handle(w.id, w.now(), m)
	}
	w.loop.Defer(func() { w.takeMail(); w.drainTodo() })
}

func reverse(m *admission.Message) (r *admission.Message) {
	for m != nil {
		next := m.Next
		m.Next = r
		r, m = m, next
	}
	return r
}

// Link: the waiter's client runs on p.
func (w *worker) Link(wt *admission.Waiter, p *admission.Place) {
	wt.Owner.(*client).granted(p.Owner.(*server))
}

// End: the waiter was shed.
func (w *worker) End(wt *admission.Waiter, _ admission.Outcome) {
	wt.Owner.(*client).shed()
}

// Open: connect a server for the place p.
func (w *worker) Open(p *admission.Place) {
	w.opening = append(w.opening, w.newServer(p)) // not from here: Open may come from inside Enter
}

// Close: the idle server at p is closed to make room for another pool.
func (w *worker) Close(p *admission.Place) {
	p.Owner.(*server).discard(reasonServerReclaimed, "")
}

// Detach: the idle server at p leaves for another loop.
func (w *worker) Detach(p *admission.Place) {
	s := p.Owner.(*server)
	w.loop.Wheel().Cancel(&s.timer)
	if w.reading == s {
		w.reading = nil
	}
	if s.sock.Alive() {
		s.sock.Detach()
	}
	w.dropServer(s)
	w.stats.moves.inc()
}

// Attach: the idle server at p arrives from another loop. If it has ended on its way,
// Link follows and finds that out, or, should its waiter have left, an event or the
// timer tells.
func (w *worker) Attach(p *admission.Place) {
	s := p.Owner.(*server)
	s.w = w
	w.keepServer(s)
	if err := w.loop.Attach(&s.sock); err != nil {
		w.log.Error("cannot register a server connection", "server", s.number, "error", err)
		s.sock.Abandon()
		w.loop.Wheel().Schedule(&s.timer, w.now())
		return
	}
	s.hangup = s.sock.HungUp()
}
