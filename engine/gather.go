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

// gathered holds the pieces for connections of one kind.
type gathered[C connection] struct {
	of     C
	n      int
	used   int
	pieces [gatherMax][]byte
	made   [madeBytes]byte
}

// connection is *server or *client; write keeps what its socket does not take.
type connection interface {
	comparable
	write(pieces [][]byte)
}

const (
	gatherMax = reactor.VectorsMax
	madeBytes = 4096 // of heads and answers made during one walk; more leave in a further write
)

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

// put adds p to the pieces for a connection; p must stay as it is until its push.
func (g *gathered[C]) put(of C, p []byte) {
	if g.of != of || g.n == gatherMax {
		g.push()
		g.of = of
	}
	g.pieces[g.n] = p
	g.n++
}

// push writes what was put, whichever connection it is for.
func (g *gathered[C]) push() {
	var none C
	if g.of == none {
		return
	}
	of := g.of
	g.of = none
	of.write(g.pieces[:g.n])
	clear(g.pieces[:g.n])
	g.n, g.used = 0, 0
}

// pushFor is push if the pieces are for this connection.
func (g *gathered[C]) pushFor(of C) {
	if g.of == of {
		g.push()
	}
}

// put sends p to PostgreSQL with the next push; p must stay as it is until then.
func (s *server) put(p []byte) { s.w.toServer.put(s, p) }

// push writes what was put.
func (s *server) push() { s.w.toServer.pushFor(s) }

// put sends p to the client with the next push; p must stay as it is until then.
func (c *client) put(p []byte) { c.w.toClient.put(c, p) }

// push writes what was put.
func (c *client) push() { c.w.toClient.pushFor(c) }

func (w *worker) pushServer() { w.toServer.push() }
func (w *worker) pushClient() { w.toClient.push() }

// made gives room for a message of at most n bytes that is made here: append to it
// and give the result to putMade.
func (s *server) made(n int) []byte {
	g := &s.w.toServer
	if n > madeBytes {
		return make([]byte, 0, n)
	}
	if g.of != s || g.n == gatherMax || madeBytes-g.used < n {
		g.push()
		g.of = s
	}
	return g.made[g.used:g.used]
}

// putMade is put for what was appended to made.
func (s *server) putMade(p []byte) {
	s.put(p)
	if len(p) <= madeBytes {
		s.w.toServer.used += len(p)
	}
}
