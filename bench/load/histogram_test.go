package load

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestBucketsAreNarrowAndInOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := []int64{0, 1, exact - 1, exact, exact + 1, 1 << 20, 1<<20 - 1, maxLatency}
	for range 10_000 {
		values = append(values, r.Int64N(1<<(1+r.IntN(maxBits-1))))
	}
	slices.Sort(values)
	last := 0
	for _, v := range values {
		b := bucketOf(v)
		if b < last || b >= buckets {
			t.Fatalf("%d ns are in bucket %d, lower values in %d of %d", v, b, last, buckets)
		}
		last = b
		if off := math.Abs(float64(middle(b)-v)) / float64(max(v, 1)); off > 1.0/256 {
			t.Fatalf("%d ns count as %d: %.2f %% off", v, middle(b), off*100)
		}
		if bucketOf(middle(b)) != b {
			t.Fatalf("the middle of bucket %d, %d ns, is in bucket %d", b, middle(b), bucketOf(middle(b)))
		}
	}
	if b := bucketOf(maxLatency + 1); b != buckets-1 {
		t.Errorf("a time above the longest is in bucket %d", b)
	}
}

func TestHistogram(t *testing.T) {
	var empty, h, other Histogram
	if empty.Quantile(0.99) != 0 || empty.Mean() != 0 || empty.Max() != 0 {
		t.Error("figures of nothing")
	}
	for i := range 100 {
		to := &h
		if i%2 == 0 {
			to = &other
		}
		to.Record(time.Duration(100 - i))
	}
	h.Add(&other)
	h.Record(-1)
	if h.Count() != 101 || h.Mean() != 50 || h.Max() != 100 {
		t.Errorf("of -1 and 1 to 100: %d, mean %v, max %v", h.Count(), h.Mean(), h.Max())
	}
	for q, want := range map[float64]time.Duration{0: 0, 0.5: 50, 0.99: 99, 1: 100} {
		if got := h.Quantile(q); got != want {
			t.Errorf("quantile %v of -1 and 1 to 100 is %d, want %d", q, got, want)
		}
	}
	h.Record(time.Second)
	if got := h.Quantile(0.999); got != time.Second {
		t.Errorf("the highest bucket's middle is not held below the maximum: %v", got)
	}
}
