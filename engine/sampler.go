package engine

// Rates: counters are read every few seconds, so that views can tell what has
// happened lately, not only since the start.
//
// Owner: the sampler's mutex; its goroutine adds samples, views read them.

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
)

const (
	sampleEvery = 5 * time.Second
	// samplesKept is a minute of them.
	samplesKept = 13
	// busyWindow is how long the time at least is of which a loop's load is told.
	busyWindow = int64(2 * time.Second)
)

// sample is what counters show at one moment.
type sample struct {
	at      int64
	cpu     int64 // ns, of the process
	slept   []int64
	traffic trafficTotals
	moves   uint64
	took    [durationKinds]view.Histogram
	waits   view.Histogram
}

type sampler struct {
	mu      sync.Mutex
	samples []sample // oldest first
	stop    chan struct{}
	ended   sync.Once
	running sync.WaitGroup
}

// takeSample reads the counters now. Any goroutine.
func (e *Engine) takeSample() sample {
	s := sample{at: reactor.Now(), cpu: processCPU()}
	for _, w := range e.workers {
		s.slept = append(s.slept, w.loop.Slept())
		s.moves += w.stats.moves.v.Load()
	}
	for _, k := range e.registry.traffic.sums() {
		s.traffic.plus(&k.total)
	}
	s.took, s.waits = e.registry.stats.all()
	return s
}

// begin takes the first sample and keeps taking them until end.
func (m *sampler) begin(e *Engine) {
	m.stop = make(chan struct{})
	m.add(e.takeSample())
	e.registry.traffic.endPeriod()
	m.running.Go(func() {
		samples, periods := time.NewTicker(sampleEvery), time.NewTicker(view.PeriodSeconds*time.Second)
		defer samples.Stop()
		defer periods.Stop()
		for {
			select {
			case <-m.stop:
				return
			case <-samples.C:
				m.add(e.takeSample())
			case <-periods.C:
				e.registry.traffic.endPeriod()
			}
		}
	})
}

// end may be called again.
func (m *sampler) end() {
	m.ended.Do(func() {
		close(m.stop)
		m.running.Wait()
	})
}

func (m *sampler) add(s sample) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.samples) == samplesKept {
		m.samples = append(m.samples[:0:0], m.samples[1:]...)
	}
	m.samples = append(m.samples, s)
}

// since gives the newest sample that is so old at a time, else the oldest; ok is
// false before there is any.
func (m *sampler) since(now, age int64) (s sample, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := len(m.samples) - 1; i >= 0; i-- {
		if s, ok = m.samples[i], true; now-s.at >= age {
			break
		}
	}
	return s, ok
}

// busy gives which part of the last seconds each loop has worked, from 0 to 1.
func (e *Engine) busy(now int64) []float64 {
	ratios := make([]float64, len(e.workers))
	then, ok := e.sampler.since(now, busyWindow)
	if !ok || now <= then.at {
		return ratios
	}
	for i, w := range e.workers {
		slept := float64(w.loop.Slept()-then.slept[i]) / float64(now-then.at)
		ratios[i] = min(max(1-slept, 0), 1)
	}
	return ratios
}

// processCPU is the time that the process has used of CPUs, in ns.
func processCPU() int64 {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil { // cannot fail for oneself
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
