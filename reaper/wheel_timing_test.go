package reaper

import "testing"

type once struct{}

func (once) Fire(int64) int64 { return 0 }

func BenchmarkScheduleCancel(b *testing.B) {
	w := NewWheel(0)
	t := Timer{Handler: once{}}
	for i := 0; b.Loop(); i++ {
		w.Schedule(&t, int64(i%5000)*Tick)
		w.Cancel(&t)
	}
}

func BenchmarkReschedule(b *testing.B) {
	w := NewWheel(0)
	t := Timer{Handler: once{}}
	for i := 0; b.Loop(); i++ {
		w.Schedule(&t, int64(i%5000)*Tick)
	}
}

// BenchmarkTickOf10000Far is a tick over 10 000 timers of an hour, most of which
// belong to other ticks or turns.
func BenchmarkTickOf10000Far(b *testing.B) {
	w := NewWheel(0)
	timers := make([]Timer, 10_000)
	const hour = 360_000 * Tick
	for i := range timers {
		timers[i].Handler = every10(hour)
		w.Schedule(&timers[i], hour+int64(i*37%slotCount)*Tick)
	}
	now := int64(0)
	for b.Loop() {
		now += Tick
		for w.Advance(now) {
		}
	}
}

type every10 int64

func (e every10) Fire(now int64) int64 { return now + int64(e) }
