//go:build !race

package reaper

import "testing"

type every int64

func (e every) Fire(now int64) int64 { return now + int64(e) }

func TestNothingAllocates(t *testing.T) {
	w := NewWheel(0)
	timers := make([]Timer, 100)
	for i := range timers {
		timers[i].Handler = every(Tick)
		w.Schedule(&timers[i], Tick)
	}
	now := int64(0)
	allocs := testing.AllocsPerRun(1000, func() {
		now += Tick
		w.Advance(now)
		w.Cancel(&timers[3])
		w.Schedule(&timers[3], now+Tick)
		w.Schedule(&timers[4], now+Tick)
	})
	if allocs != 0 {
		t.Fatalf("%v allocations a tick", allocs)
	}
}
