package protocol

import "slices"

// relayLocal is what a relay keeps of the messages that it answers itself, of
// those of ours on which one of the client's depends, and of the numbers.
type relayLocal struct {
	pending    []localAnswer      // oldest first
	settled    map[uint64]Outcome // by number, as the tracker says
	localGroup bool               // the client's group holds a message that was answered here
	prepared   int                // the client's message before which a Parse of ours was sent
	seen       map[string]int     // how often one of relayEvents was seen
}

type localAnswer struct {
	number  uint64
	answers []said
}

// relayEvents must have happened in a random test that means something.
var relayEvents = []string{
	"answered at once", "answered later", "answer removed", "sent instead", "a failed block", "prepared", "prepared before a held message", "error prepared",
}

// offerOne offers c, or answers it here.
func (r *relay) offerOne(c message) Verdict {
	if !c.local {
		return r.tracker.Offer(c.typ, c.marked)
	}
	may := r.tracker.MayAnswer(c.typ)
	v := r.tracker.Local(c.typ)
	answers := newModel()
	answers.extended(c)
	switch v {
	case AnswerNow:
		r.seen["answered at once"]++
		r.client = append(r.client, answers.out...)
	case AnswerLater:
		r.seen["answered later"]++
		r.pending = append(r.pending, localAnswer{r.tracker.Sent(), answers.out})
	case Forward, ForwardFlush:
		r.seen["sent instead"]++
		if r.tracker.Status() == StatusFailed {
			r.seen["a failed block"]++
		}
	}
	if v == AnswerNow || v == AnswerLater {
		r.localGroup = true
	}
	if may != (v == AnswerNow || v == AnswerLater) {
		r.fatalf("%c may be answered here: %v, but %d", c.typ, may, v)
	}
	return v
}

// prepare sends a Parse of ours before some Binds and Describes; its error is the
// one that the client's message would have had. True: the message is held.
func (r *relay) prepare(c message) (held bool) {
	if (c.typ != FrontendBind && c.typ != FrontendDescribe) || c.local || r.prepared == c.id || r.pick(3) > 0 {
		return false
	}
	v := r.tracker.Prepare()
	r.logf("^ for %d: %d", c.id, v)
	switch v {
	case Hold, Full:
		r.seen["prepared before a held message"]++
		r.blocked = true
		return true
	case Drop:
		return false
	}
	r.seen["prepared"]++
	r.prepared = c.id
	fails := c.fails && !c.params && r.pick(2) == 0
	r.send(message{typ: FrontendParse, id: -1, blame: c.id, fails: fails, exits: c.exits})
	if fails {
		r.seen["error prepared"]++
	}
	if v == ForwardFlush {
		r.send(message{typ: FrontendFlush, id: -1})
	}
	return false
}

// deliver gives a message to the tracker and returns what the client gets: the
// message, unless it is swallowed, and answers made here that it completes.
func (r *relay) deliver(tr *Tracker, m said, pending *[]localAnswer, settled map[uint64]Outcome) (Answer, []said, error) {
	before := tr.Done()
	a, err := tr.Receive(m.typ, m.st, []byte(m.code))
	if err != nil {
		return a, nil, err
	}
	var out []said
	if !a.Swallow {
		out = append(out, m)
	}
	for n := before + 1; n <= tr.Done(); n++ {
		settled[n] = tr.Outcome(n)
	}
	complete := 0
	for ; len(*pending) > 0 && (*pending)[0].number <= tr.Done(); *pending = (*pending)[1:] {
		p := (*pending)[0]
		switch settled[p.number] {
		case Executed:
			out = append(out, p.answers...)
			complete++
		case Removed:
			r.seen["answer removed"]++
		case Failed:
			r.fatalf("message %d was answered here and has failed", p.number)
		}
	}
	if complete != a.Local {
		r.fatalf("%d answers of ours are complete, the tracker says %d", complete, a.Local)
	}
	return a, out, nil
}

// rest is what the client will get of what the server has said by now.
func (r *relay) rest() (out []said) {
	tr, pending := r.tracker, slices.Clone(r.pending)
	for _, m := range r.server.out[r.read:] {
		_, answers, err := r.deliver(&tr, m, &pending, map[uint64]Outcome{})
		if err != nil {
			r.fatalf("the rest, %c: %v", m.typ, err)
		}
		out = append(out, answers...)
	}
	return out
}

// sameOutcomes fails unless the tracker has said of each message that was sent
// what the server has done with it.
func (r *relay) sameOutcomes() {
	if r.tracker.Done() != r.tracker.Sent() {
		r.fatalf("%d of %d messages are settled", r.tracker.Done(), r.tracker.Sent())
	}
	for n, want := range r.server.became {
		if got, ok := r.settled[n]; n > 0 && (!ok || got != want) {
			r.fatalf("message %d: %v is %d, on the server %d", n, ok, got, want)
		}
	}
	clear(r.server.became)
	clear(r.settled)
}
