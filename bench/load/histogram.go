package load

import (
	"math/bits"
	"time"
)

// A log-linear histogram: every power of two is cut into the same number of buckets, so that the error is a constant part
// of the value whether that is 10 µs or 10 s.
const (
	subBits    = 7                  // 128 buckets for each power of two: they are at most 0.8 % wide
	exact      = 1 << (subBits + 1) // ns below which each value has a bucket of its own
	maxBits    = 42                 // values are below 2^42 ns, 73 minutes; what is above counts as that
	buckets    = exact + (maxBits-subBits-1)<<subBits
	maxLatency = int64(1)<<maxBits - 1
)

// Histogram counts times. The zero value is empty; it belongs to one goroutine. A quantile is off by at most 0.4 % of its
// value; Mean and Max are exact.
type Histogram struct {
	counts [buckets]uint64
	n      uint64
	sum    float64 // ns
	max    int64   // ns
}

// Record counts a time; one below 0 counts as 0.
func (h *Histogram) Record(d time.Duration) {
	ns := max(int64(d), 0)
	h.counts[bucketOf(ns)]++
	h.n++
	h.sum += float64(ns)
	h.max = max(h.max, ns)
}

// Add counts everything that other has counted.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.n += other.n
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// Count is how many times were recorded.
func (h *Histogram) Count() int { return int(h.n) }

// Mean is the mean of the times; 0 without any.
func (h *Histogram) Mean() time.Duration {
	if h.n == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.n))
}

// Max is the longest time; 0 without any.
func (h *Histogram) Max() time.Duration { return time.Duration(h.max) }

// Quantile is the time that the part q (0 to 1) of all times is below; 0 without any, Max at 1.
func (h *Histogram) Quantile(q float64) time.Duration {
	rank := uint64(q * float64(h.n))
	if rank >= h.n {
		return h.Max()
	}
	for i, n := range h.counts {
		if rank < n {
			return time.Duration(min(middle(i), h.max))
		}
		rank -= n
	}
	return h.Max()
}

// bucketOf gives the bucket of a time of at least 0 ns.
func bucketOf(ns int64) int {
	ns = min(ns, maxLatency)
	if ns < exact {
		return int(ns)
	}
	shift := bits.Len64(uint64(ns)) - subBits - 1 // its leading subBits+1 bits stay
	return exact + (shift-1)<<subBits + int(ns>>shift) - exact/2
}

// middle is the time in the middle of a bucket, ns.
func middle(bucket int) int64 {
	if bucket < exact {
		return int64(bucket)
	}
	bucket -= exact
	shift := bucket>>subBits + 1
	return (int64(bucket&(1<<subBits-1))+exact/2)<<shift + int64(1)<<(shift-1)
}
