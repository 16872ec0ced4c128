package admission

// Driver is what one event loop does for admission. Every call happens on that loop's goroutine and outside all locks;
// calling admission from inside a Driver call is allowed.
type Driver interface {
	// Post puts m into another loop's (or, to == own, this loop's) mailbox: first in, first out per sender, never
	// fails. That loop then calls Controller.Handle with it. Next is the mailbox's to use until then.
	Post(to int, m *Message)
	// Link hands w the backend p, which is live, clean and attached to this loop. w is finished for admission and
	// recycled when Link returns; p carries the permit until Release or Closed. Link never comes from inside
	// Route.TryRun or Route.Enter; it may come from inside every other call that takes a loop.
	Link(w *Waiter, p *Place)
	// Open begins to connect p on this loop; p.Owner is nil and may be set. Opened or Failed must follow. May come
	// from inside Route.Enter.
	Open(p *Place)
	// Detach and Attach take p off this loop's poller, and put it on, when it moves between loops.
	Detach(p *Place)
	Attach(p *Place)
	// Close ends p, which was idle here and is claimed, or was just released: close its socket, then call Closed.
	Close(p *Place)
	// End tells that w, which waited here, was shed (o is Shed). Its counts are undone; it is recycled when End
	// returns.
	End(w *Waiter, o Outcome)
}

type kind uint8

const (
	msgGive  kind = iota // p, with a permit, to the waiter w on w's loop
	msgOpen              // connect p on its loop
	msgAsk               // w holds a permit and a claim on an idle place: who has one?
	msgHome              // w's ask comes back to w's loop
	msgEnd               // w was shed
	msgClose             // p was claimed for closing on its loop
)

// Message travels between loops. It is part of the Waiter or Place that it concerns and never allocated by itself.
// Owner: its Waiter or Place while it rests, the mailbox while it travels.
type Message struct {
	Next *Message // the mailbox's link

	what  kind
	moved bool // msgGive: the place has left its old loop's poller and must be attached
	hops  uint16
	to    int32
	w     *Waiter
	p     *Place
}

// queue is a first-in first-out list of messages that one loop still has to carry out.
type queue struct{ first, last *Message }

func (q *queue) push(m *Message) {
	m.Next = nil
	if q.last == nil {
		q.first = m
	} else {
		q.last.Next = m
	}
	q.last = m
}

func (q *queue) pop() *Message {
	m := q.first
	if m == nil {
		return nil
	}
	q.first = m.Next
	if q.first == nil {
		q.last = nil
	}
	m.Next = nil
	return m
}
