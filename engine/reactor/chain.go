package reactor

import "golang.org/x/sys/unix"

// State: Chain is a queue of bytes in chunks. Owner: the loop whose free lists
// it uses; a chain may move to another loop with its socket, since chunks are
// interchangeable.
//
// Invariants:
//   - length = sum of the chunks' held bytes
//   - every chunk in the chain holds at least one byte: an empty chain has none
//   - only the last chunk is appended to

// Chain is a first-in-first-out byte buffer of fixed chunks. The zero value is
// empty and an empty chain holds no memory. It has no bound of its own: the
// caller compares Len with its cap before Append. Loop only. A chain with bytes
// must not be copied.
type Chain struct {
	head, tail *chunk
	length     int
}

// Len returns the number of bytes held.
func (c *Chain) Len() int { return c.length }

// Append copies p to the end, with chunks of l. The first chunk is a small one
// (1 KiB) if p fits; all others have 16 KiB.
func (c *Chain) Append(l *Loop, p []byte) {
	c.length += len(p)
	for len(p) > 0 {
		if c.tail == nil || len(c.tail.room()) == 0 {
			c.push(l.chunks.take(c.tail != nil || len(p) > smallChunk))
		}
		n := copy(c.tail.room(), p)
		c.tail.w += int32(n)
		p = p[n:]
	}
}

func (c *Chain) push(k *chunk) {
	if c.tail == nil {
		c.head = k
	} else {
		c.tail.next = k
	}
	c.tail = k
}

// Peek returns the first contiguous piece, empty if the chain is. It is valid
// until the next call that changes the chain.
func (c *Chain) Peek() []byte {
	if c.head == nil {
		return nil
	}
	return c.head.held()
}

// Contiguous returns the first n bytes in one piece, moving them together if
// needed; n is at most ContiguousMax. It returns nil if fewer are held. The
// slice is valid until the next call that changes the chain.
func (c *Chain) Contiguous(l *Loop, n int) []byte {
	if n > c.length || n <= 0 {
		return nil
	}
	if n > ContiguousMax {
		panic("BUG: reactor: Contiguous beyond ContiguousMax")
	}
	if len(c.head.held()) < n {
		c.gather(l, int32(n))
	}
	return c.head.held()[:n]
}

// gather makes the first chunk hold at least n bytes, taken from those behind.
func (c *Chain) gather(l *Loop, n int32) {
	h := c.head
	switch {
	case len(h.data) < int(n):
		h = l.chunks.take(true)
		h.next, c.head = c.head, h
	case h.r+n > int32(len(h.data)):
		h.w = int32(copy(h.data, h.held()))
		h.r = 0
	}
	for h.w-h.r < n {
		from := h.next
		moved := int32(copy(h.data[h.w:h.r+n], from.held()))
		h.w += moved
		from.r += moved
		if from.r == from.w {
			h.next = from.next
			if h.next == nil {
				c.tail = h
			}
			l.chunks.put(from)
		}
	}
}

// Discard drops the first n bytes and returns emptied chunks to l. To drop more
// than is held is a bug and panics.
func (c *Chain) Discard(l *Loop, n int) {
	if n > c.length {
		panic("BUG: reactor: Discard of more than is held")
	}
	c.length -= n
	for n > 0 {
		h := c.head
		if have := int(h.w - h.r); n < have {
			h.r += int32(n)
			return
		} else {
			n -= have
		}
		c.dropHead(l)
	}
}

func (c *Chain) dropHead(l *Loop) {
	h := c.head
	c.head = h.next
	if c.head == nil {
		c.tail = nil
	}
	l.chunks.put(h)
}

// Release drops everything and returns the chunks to l.
func (c *Chain) Release(l *Loop) { c.Discard(l, c.length) }

// forget drops everything where there is no loop to give chunks back to.
func (c *Chain) forget() {
	for k := c.head; k != nil; k = k.next {
		bufferBytes.n.Add(-int64(len(k.data)))
	}
	*c = Chain{}
}

// WriteTo writes the chain to s, up to 16 chunks a call, until it is empty or
// the socket takes no more, and discards what was written. A nil error with
// bytes left means that the socket is full: Writable will be reported (Unix:
// after WantWrite). Any other error is the socket's; n bytes went before it.
func (c *Chain) WriteTo(s *Socket) (n int, err error) {
	if c.length == 0 {
		return 0, nil
	}
	if !s.Alive() {
		return 0, unix.EBADF
	}
	if s.staged != 0 {
		panic("BUG: reactor: bytes of a chain overtake those of Put")
	}
	if s.secure != nil {
		return s.secure.writeChain(c)
	}
	return c.drain(s)
}

// drain is WriteTo below the TLS layer.
func (c *Chain) drain(s *Socket) (n int, err error) {
	v := &s.loop.vectors
	for c.length > 0 {
		for k := c.head; k != nil && v.add(k.held()); k = k.next {
		}
		asked := v.bytes
		sent, err := v.send(int(s.fd))
		c.Discard(s.loop, sent)
		n += sent
		if err == unix.EAGAIN {
			return n, nil
		}
		if err != nil || sent < asked {
			return n, err
		}
	}
	return n, nil
}

// CopyTo copies the first bytes, as many as dst takes, and returns how many; it
// leaves the chain as it is.
func (c *Chain) CopyTo(dst []byte) (n int) {
	for k := c.head; k != nil && n < len(dst); k = k.next {
		n += copy(dst[n:], k.held())
	}
	return n
}
