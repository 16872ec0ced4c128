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

// serverList holds all servers of a worker, as clientList does clients.
type serverList struct{ items []*server }

func (l *serverList) add(s *server) {
	s.index = int32(len(l.items))
	l.items = append(l.items, s)
}

func (l *serverList) remove(s *server) {
	last := l.items[len(l.items)-1]
	l.items[s.index] = last
	last.index = s.index
	l.items[len(l.items)-1] = nil
	l.items = l.items[:len(l.items)-1]
}

// each yields every server; the present one may be removed meanwhile.
func (l *serverList) each(yield func(*server) bool) {
	for i := len(l.items) - 1; i >= 0; i-- {
		if !yield(l.items[i]) {
			return
		}
	}
}
