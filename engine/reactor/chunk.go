package reactor

import "sync/atomic"

// State: freeChunks is a loop's two lists of unused chunks. Owner: the loop.
//
// Invariants:
//   - a chunk is in one chain or in one free list
//   - len(chunk.data) never changes: smallChunk or largeChunk
//   - bufferBytes is the sum of len(data) of all chunks that are in chains
//   - a free list holds at most its maximum; the rest goes to the collector

const (
	// smallChunk is for the few bytes that most waiting output consists of.
	smallChunk = 1 << 10
	// largeChunk is for everything else, and the most that Chain.Contiguous can
	// put together.
	largeChunk = 16 << 10

	freeSmallMax = 512 // 512 KiB a loop
	freeLargeMax = 128 // 2 MiB a loop
)

// ContiguousMax is the largest n that Chain.Contiguous accepts, in bytes.
const ContiguousMax = largeChunk

var bufferBytes struct {
	_    [64]byte // every loop writes it
	n    atomic.Int64
	peak atomic.Int64 // the highest that n ever was
	_    [48]byte
}

// BufferBytes returns the bytes of all chunks in use, process-wide, by capacity.
// Any goroutine.
func BufferBytes() int64 { return bufferBytes.n.Load() }

// BufferPeak returns the highest that BufferBytes ever was. Any goroutine.
func BufferPeak() int64 { return bufferBytes.peak.Load() }

// countBytes takes n bytes of a chunk into the count.
func countBytes(n int64) {
	now := bufferBytes.n.Add(n)
	for {
		peak := bufferBytes.peak.Load()
		if now <= peak || bufferBytes.peak.CompareAndSwap(peak, now) {
			return
		}
	}
}

type chunk struct {
	next *chunk
	r, w int32 // data[r:w] is held
	data []byte
}

func (c *chunk) held() []byte { return c.data[c.r:c.w] }

func (c *chunk) room() []byte { return c.data[c.w:] }

type chunkList struct {
	first *chunk
	count int
}

func (f *chunkList) take(size int) *chunk {
	c := f.first
	if c == nil {
		return &chunk{data: make([]byte, size)}
	}
	f.first, c.next = c.next, nil
	f.count--
	return c
}

func (f *chunkList) put(c *chunk, countMax int) {
	if f.count >= countMax {
		return
	}
	c.next, c.r, c.w = f.first, 0, 0
	f.first = c
	f.count++
}

type freeChunks struct {
	small, large chunkList
}

func (f *freeChunks) take(large bool) *chunk {
	if large {
		countBytes(largeChunk)
		return f.large.take(largeChunk)
	}
	countBytes(smallChunk)
	return f.small.take(smallChunk)
}

func (f *freeChunks) put(c *chunk) {
	bufferBytes.n.Add(-int64(len(c.data)))
	if len(c.data) == largeChunk {
		f.large.put(c, freeLargeMax)
	} else {
		f.small.put(c, freeSmallMax)
	}
}
