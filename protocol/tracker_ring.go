package protocol

// flags of an entry.
const (
	flagInjected uint8 = 1 << iota // sent by us
	flagOrphan                     // its client has left
	flagMarked                     // an Execute or Query that may be COPY FROM STDIN
	flagLocal                      // answered here: it was not sent
	flagPrepared                   // sent by us; its failure is the client's
)

const (
	flagOurs    = flagInjected | flagOrphan // nothing that answers it is for the client
	flagSwallow = flagOurs | flagPrepared   // its success is not
)

// entry is one message that is owed an answer.
type entry struct {
	kind  kind
	flags uint8
}

const (
	ringInline = 16  // entries without a heap ring
	ringKeep   = 512 // entries of the largest heap ring that outlives an empty queue
)

// ring is a first-in-first-out queue of entries whose capacity is a power of
// two. It lives in an array of its own until it grows; a larger ring is given
// back when the queue is empty, so an idle backend keeps at most 1 KiB.
//
// Invariants: n entries from first on, taken modulo the capacity; heap is nil
// while the array is in use. Its bound is MaxOwed for what clients send, plus
// what is injected (Query and Sync of Recover, the Syncs of a failed COPY).
type ring struct {
	heap   []entry
	first  int
	n      int
	inline [ringInline]entry
}

func (r *ring) slots() []entry {
	if r.heap != nil {
		return r.heap
	}
	return r.inline[:]
}

// at returns the i-th entry from the head; it stays valid until the next push.
func (r *ring) at(i int) *entry {
	s := r.slots()
	return &s[(r.first+i)&(len(s)-1)]
}

func (r *ring) head() *entry { return r.at(0) }

// newest returns the entry that was pushed last; n must not be zero.
func (r *ring) newest() *entry { return r.at(r.n - 1) }

func (r *ring) push(e entry) {
	if r.n == len(r.slots()) {
		r.grow()
	}
	r.n++
	*r.newest() = e
}

func (r *ring) grow() {
	bigger := make([]entry, 2*len(r.slots()))
	for i := range r.n {
		bigger[i] = *r.at(i)
	}
	r.heap, r.first = bigger, 0
}

func (r *ring) pop() {
	r.first = (r.first + 1) & (len(r.slots()) - 1)
	r.n--
	if r.n == 0 {
		r.clear()
	}
}

func (r *ring) clear() {
	r.first, r.n = 0, 0
	if len(r.heap) > ringKeep {
		r.heap = nil
	}
}
