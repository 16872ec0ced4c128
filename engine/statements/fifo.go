package statements

// fifo is a queue whose elements keep a position: the n-th that was ever pushed.
// It grows as needed (its owner's queue of answers owed is bounded by
// protocol.MaxOwed) and lets go of a large array when it is empty.
type fifo[T any] struct {
	ring []T    // its length is a power of two, or zero
	head uint64 // position of the oldest element
	tail uint64 // position behind the newest
}

const (
	fifoStart = 4  // elements of the first array
	fifoKept  = 64 // elements of the largest array that an empty queue keeps
)

func (q *fifo[T]) len() int { return int(q.tail - q.head) }

// push appends an element and returns its position.
func (q *fifo[T]) push(v T) uint64 {
	if q.len() == len(q.ring) {
		q.grow()
	}
	q.ring[q.tail&uint64(len(q.ring)-1)] = v
	q.tail++
	return q.tail - 1
}

// at returns the element at a position that is in the queue.
func (q *fifo[T]) at(position uint64) *T { return &q.ring[position&uint64(len(q.ring)-1)] }

func (q *fifo[T]) front() *T { return q.at(q.head) }

func (q *fifo[T]) pop() T {
	var zero T
	v := *q.front()
	*q.front() = zero
	q.head++
	if q.head == q.tail && len(q.ring) > fifoKept {
		q.ring = nil
	}
	return v
}

func (q *fifo[T]) grow() {
	ring := make([]T, max(fifoStart, 2*len(q.ring)))
	for p := q.head; p != q.tail; p++ {
		ring[p&uint64(len(ring)-1)] = *q.at(p)
	}
	q.ring = ring
}
