package engine

// clientList holds all clients of a worker, in no order. Removing is O(1): the
// last takes the place.
type clientList struct {
	items  []*client
	cursor int
}

// Len is the number of clients.
func (l *clientList) Len() int { return len(l.items) }

func (l *clientList) add(c *client) {
	c.index = int32(len(l.items))
	l.items = append(l.items, c)
}

func (l *clientList) remove(c *client) {
	last := l.items[len(l.items)-1]
	l.items[c.index] = last
	last.index = c.index
	l.items[len(l.items)-1] = nil
	l.items = l.items[:len(l.items)-1]
}

// next walks round and round over the list, also while clients come and go; nil
// when there is none.
func (l *clientList) next() *client {
	if len(l.items) == 0 {
		return nil
	}
	if l.cursor >= len(l.items) {
		l.cursor = 0
	}
	c := l.items[l.cursor]
	l.cursor++
	return c
}

// serverList holds all servers of a worker, intrusive and doubly linked.
type serverList struct{ first *server }

func (l *serverList) add(s *server) {
	s.prev, s.next = nil, l.first
	if l.first != nil {
		l.first.prev = s
	}
	l.first = s
}

func (l *serverList) remove(s *server) {
	if s.prev != nil {
		s.prev.next = s.next
	} else {
		l.first = s.next
	}
	if s.next != nil {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// each yields every server; the present one may be removed meanwhile.
func (l *serverList) each(yield func(*server) bool) {
	for s := l.first; s != nil; {
		next := s.next
		if !yield(s) {
			return
		}
		s = next
	}
}
