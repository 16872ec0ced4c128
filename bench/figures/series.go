package figures

import (
	"math"
	"slices"
)

// Sample is what one round has shown.
type Sample map[Figure]float64

// Round is one run of one target.
type Round struct {
	Sample Sample `json:"figures"`
	// Others is the part of the machine's CPU that programs used which are no part of the measurement, from 0 to 1.
	Others float64 `json:"others"`
	// Disturbed: that, or what was left free, makes the round worth less than it should be.
	Disturbed bool `json:"disturbed,omitempty"`
	// Trouble is the first error that a client got.
	Trouble string `json:"trouble,omitempty"`
}

// Series are the rounds of one target in one case.
type Series struct {
	Target   string  `json:"target"`
	Program  string  `json:"program"`            // with its version
	Note     string  `json:"note,omitempty"`     // what is different for this target
	Rounds   []Round `json:"rounds"`             // those that count
	Repeated int     `json:"repeated,omitempty"` // rounds that were disturbed and run again
}

// Spread is the middle of a figure's values and how far they lie apart.
type Spread struct{ Median, Low, High float64 }

// Of gives the spread of a figure over the rounds that have it; ok is false without any.
func (s *Series) Of(f Figure) (spread Spread, ok bool) {
	var values []float64
	for _, r := range s.Rounds {
		if v, ok := r.Sample[f]; ok {
			values = append(values, v)
		}
	}
	if len(values) == 0 {
		return Spread{}, false
	}
	return Spread{Median(values), slices.Min(values), slices.Max(values)}, true
}

// Disturbed is the number of rounds that were.
func (s *Series) Disturbed() (n int) {
	for _, r := range s.Rounds {
		if r.Disturbed {
			n++
		}
	}
	return n
}

// Median is the middle value, or the mean of the two in the middle. It leaves the values as they are; without any it panics.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Quantile is the smallest value that at least the q-th part of them does not exceed; 0 without any. The values are sorted.
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	n := int(math.Ceil(q*float64(len(sorted)) - 1e-9)) // 0.99 of 100 is 99, whatever the floating point makes of it
	return sorted[min(max(n-1, 0), len(sorted)-1)]
}
