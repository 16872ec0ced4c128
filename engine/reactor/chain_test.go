package reactor

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// idleLoop is a loop that only lends its free lists.
func idleLoop() *Loop { return new(Loop) }

// TestChainAgainstBytes runs random operations on a chain and on a plain slice.
func TestChainAgainstBytes(t *testing.T) {
	for seed := range uint64(60) {
		l := idleLoop()
		rnd := rand.New(rand.NewPCG(seed, 2))
		var c Chain
		var want []byte
		source := make([]byte, 3*largeChunk)
		pattern(source, int(seed)*977)
		for step := range 200 {
			switch rnd.IntN(6) {
			case 0, 1:
				p := source[:rnd.IntN(1+[]int{10, smallChunk, 2 * smallChunk, len(source)}[rnd.IntN(4)])]
				c.Append(l, p)
				want = append(want, p...)
			case 2:
				n := rnd.IntN(len(want) + 1)
				c.Discard(l, n)
				want = want[n:]
			case 3:
				n := rnd.IntN(ContiguousMax + 1)
				got := c.Contiguous(l, n)
				switch {
				case n == 0 || n > len(want):
					if got != nil {
						t.Fatalf("seed %d step %d: Contiguous(%d) of %d", seed, step, n, len(want))
					}
				case !bytes.Equal(got, want[:n]):
					t.Fatalf("seed %d step %d: Contiguous(%d) differs", seed, step, n)
				}
			case 4:
				if p := c.Peek(); !bytes.HasPrefix(want, p) || (len(p) == 0) != (len(want) == 0) {
					t.Fatalf("seed %d step %d: Peek of %d bytes", seed, step, len(p))
				}
			case 5:
				if rnd.IntN(10) == 0 {
					c.Release(l)
					want = nil
				}
			}
			checkChain(t, &c, want)
		}
		c.Release(l)
		checkChain(t, &c, nil)
	}
	if n := BufferBytes(); n != 0 {
		t.Errorf("%d buffer bytes in use at the end", n)
	}
}

// checkChain compares content and invariants.
func checkChain(t *testing.T, c *Chain, want []byte) {
	t.Helper()
	var inUse int64
	rest := want
	var last *chunk
	for k := c.head; k != nil; k = k.next {
		if size := len(k.data); size != cap(k.data) || size != smallChunk && size != largeChunk {
			t.Fatalf("a chunk's capacity changed: %d of %d", size, cap(k.data))
		}
		if len(k.held()) == 0 {
			t.Fatal("an empty chunk in the chain")
		}
		if !bytes.HasPrefix(rest, k.held()) {
			t.Fatal("the content differs")
		}
		rest = rest[len(k.held()):]
		inUse += int64(len(k.data))
		last = k
	}
	if len(rest) != 0 || c.Len() != len(want) || c.tail != last {
		t.Fatalf("Len %d, want %d, %d bytes missing", c.Len(), len(want), len(rest))
	}
	if got := BufferBytes(); got != inUse {
		t.Fatalf("BufferBytes %d, chunks have %d", got, inUse)
	}
}

// TestChainHoldsLittleForLittle: a few bytes cost the small chunk, nothing costs
// nothing.
func TestChainHoldsLittleForLittle(t *testing.T) {
	f := func(bytes int, want int64) {
		t.Helper()
		l := idleLoop()
		var c Chain
		c.Append(l, make([]byte, bytes))
		if got := BufferBytes(); got != want {
			t.Errorf("%d bytes cost %d, want %d", bytes, got, want)
		}
		c.Discard(l, bytes)
		if got := BufferBytes(); got != 0 || c.head != nil || c.tail != nil {
			t.Errorf("an empty chain costs %d", got)
		}
	}
	f(0, 0)
	f(1, smallChunk)
	f(smallChunk, smallChunk)
	f(smallChunk+1, largeChunk)
	f(largeChunk, largeChunk)
	f(largeChunk+1, 2*largeChunk)
}

// TestFreeListsAreBounded: after a flood a loop keeps a fixed number of chunks.
func TestFreeListsAreBounded(t *testing.T) {
	l := idleLoop()
	small, large := make([]Chain, 2*freeSmallMax), make([]Chain, 2*freeLargeMax)
	for i := range small {
		small[i].Append(l, make([]byte, 1))
	}
	for i := range large {
		large[i].Append(l, make([]byte, largeChunk))
	}
	for i := range small {
		small[i].Release(l)
	}
	for i := range large {
		large[i].Release(l)
	}
	if l.chunks.small.count != freeSmallMax || l.chunks.large.count != freeLargeMax {
		t.Errorf("%d small and %d large chunks kept", l.chunks.small.count, l.chunks.large.count)
	}
	first := l.chunks.large.first
	var c Chain
	c.Append(l, make([]byte, largeChunk))
	if c.head != first || l.chunks.large.count != freeLargeMax-1 {
		t.Error("a free chunk was not used again")
	}
	c.Release(l)
}

// TestChainMovesBetweenLoops: taken on one loop, given back on another.
func TestChainMovesBetweenLoops(t *testing.T) {
	a, b := idleLoop(), idleLoop()
	var c Chain
	c.Append(a, make([]byte, 100))
	c.Append(b, make([]byte, 2*largeChunk))
	c.Release(b)
	if BufferBytes() != 0 || b.chunks.small.count != 1 || b.chunks.large.count != 2 {
		t.Errorf("%d in use, free: %+v", BufferBytes(), b.chunks)
	}
}

func TestChainMisusePanics(t *testing.T) {
	l := idleLoop()
	var c Chain
	c.Append(l, make([]byte, 2*largeChunk))
	defer c.Release(l)
	f := func(name string, misuse func()) {
		defer func() {
			if recover() == nil {
				t.Errorf("%s: no panic", name)
			}
		}()
		misuse()
	}
	f("Discard of too much", func() { c.Discard(l, c.Len()+1) })
	f("Contiguous beyond the maximum", func() { c.Contiguous(l, ContiguousMax+1) })
}

// TestChainWritesMoreThanOneCallTakes: 100 chunks against a reader that reads
// everything; the chain writes until the socket is full, again when it has room.
func TestChainWritesMoreThanOneCallTakes(t *testing.T) {
	const size = 100*largeChunk + 5
	for _, network := range networks {
		l := startLoop(t)
		fd, peer := pair(t, network)
		var c Chain
		s := add(t, l, fd, network == "unix", handlerFunc(func(s *Socket, ev Events) {
			if ev&Writable == 0 {
				return
			}
			if _, err := c.WriteTo(s); err != nil {
				t.Error(err)
			}
			s.WantWrite(c.Len() > 0)
		}))
		on(t, l, func() {
			p := make([]byte, size)
			pattern(p, 0)
			c.Append(l, p)
			n, err := c.WriteTo(s)
			if n <= 0 || n+c.Len() != size || err != nil {
				t.Errorf("%s: wrote %d, %d left, %v", network, n, c.Len(), err)
			}
			s.WantWrite(c.Len() > 0)
		})
		readPattern(t, peer, size, 50_000)
		on(t, l, func() {
			if c.Len() != 0 {
				t.Errorf("%s: %d bytes left", network, c.Len())
			}
		})
	}
}
