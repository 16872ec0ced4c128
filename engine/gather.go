package engine

// Gathering: the pieces of one write. A walk over the messages of one connection
// passes on runs of them where they lie in the read scratch, and between them
// messages made here (a new head of a message whose rest goes on as it is, an
// answer of ours in its place); all of it leaves in one write.
//
// Owner: the worker; at any time the pieces belong to one connection (of).
//
// Invariants:
//   - pieces refer to the read scratch, to made, or to what never changes: they are
//     written, or copied to the connection's out, before the walk that added them ends;
//   - nothing else is written to a connection while it has pieces here: send,
//     queue and unlink push them first.

import "pgkinetic/engine/reactor"

// gathered holds the pieces for connections of one kind (*server or *client).
type gathered[C comparable] struct {
	of     C
	n      int
	used   int
	pieces [gatherMax][]byte
	made   [madeBytes]byte
}

const (
	gatherMax = reactor.VectorsMax
	madeBytes = 4096 // of heads and answers made during one walk; more leave in a further write
)

// add appends a piece: there is room (full).
func (g *gathered[C]) add(p []byte) {
	g.pieces[g.n] = p
	g.n++
}

func (g *gathered[C]) full() bool { return g.n == gatherMax }

// scratch gives room for a message made here, of at most n bytes: append to it and
// give the result to keep. nil: there is none, push first.
func (g *gathered[C]) scratch(n int) []byte {
	if len(g.made)-g.used < n {
		return nil
	}
	return g.made[g.used:g.used]
}

// keep adds what was appended to scratch.
func (g *gathered[C]) keep(p []byte) {
	g.used += len(p)
	g.add(p)
}

func (g *gathered[C]) clear() {
	var none C
	clear(g.pieces[:g.n])
	g.of, g.n, g.used = none, 0, 0
}

// writeGathered writes the pieces to a socket and what it does not take to out,
// which is empty before; taken is how many bytes the socket took.
func writeGathered(sock *reactor.Socket, pieces [][]byte) (taken int, err error) {
	taken, err = sock.Put(pieces)
	if err == errAgain {
		err = nil
	}
	return taken, err
}

func total(pieces [][]byte) (n int) {
	for _, p := range pieces {
		n += len(p)
	}
	return n
}

// appendFrom appends to out what follows the first skip bytes of the pieces.
func appendFrom(w *worker, out *reactor.Chain, pieces [][]byte, skip int) {
	for _, p := range pieces {
		if skip >= len(p) {
			skip -= len(p)
			continue
		}
		out.Append(w.loop, p[skip:])
		skip = 0
	}
}

// put sends p to PostgreSQL with the next push; p must stay as it is until then.
func (s *server) put(p []byte) {
	g := &s.w.toServer
	if g.of != s {
		s.w.pushServer()
		g.of = s
	} else if g.full() {
		s.push()
		g.of = s
	}
	g.add(p)
}

// push writes what was put.
func (s *server) push() {
	g := &s.w.toServer
	if g.of != s {
		return
	}
	s.write(g.pieces[:g.n])
	g.clear()
}

// pushServer pushes for whichever server has pieces.
func (w *worker) pushServer() {
	if s := w.toServer.of; s != nil {
		s.push()
	}
}

// put sends p to the client with the next push; p must stay as it is until then.
func (c *client) put(p []byte) {
	g := &c.w.toClient
	if g.of != c {
		c.w.pushClient()
		g.of = c
	} else if g.full() {
		c.push()
		g.of = c
	}
	g.add(p)
}

// push writes what was put.
func (c *client) push() {
	g := &c.w.toClient
	if g.of != c {
		return
	}
	g.of = nil // write may end in a handler that pushes
	c.write(g.pieces[:g.n])
	g.clear()
}

func (w *worker) pushClient() {
	if c := w.toClient.of; c != nil {
		c.push()
	}
}

// made gives room for a message of at most n bytes that is made here: append to it
// and give the result to putMade.
func (s *server) made(n int) []byte {
	g := &s.w.toServer
	if g.of != s {
		s.w.pushServer()
		g.of = s
	}
	if n > madeBytes {
		return make([]byte, 0, n)
	}
	p := g.scratch(n)
	if p == nil || g.full() {
		s.push()
		g.of = s
		p = g.scratch(n)
	}
	return p
}

// putMade is put for what was appended to made.
func (s *server) putMade(p []byte) {
	g := &s.w.toServer
	if len(p) > madeBytes || g.full() {
		s.put(p)
		return
	}
	g.keep(p)
}
