package engine

// What is to be seen of the process as a whole: whether it serves, how loaded it is,
// what it remembers.

import (
	"fmt"
	"os"
	"runtime/metrics"
	"strings"
	"unsafe"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
)

// State tells what holds for the whole process: active while neither of the others
// does, nor it ends. Any goroutine.
func (e *Engine) State() (active, paused, suspended bool) {
	draining, paused, suspended := e.stateNow()
	return e.started.Load() && !draining && !paused && !suspended, paused, suspended
}

// Health tells whether clients are served, and if not why. Any goroutine.
func (e *Engine) Health() view.Health {
	h := view.Health{Version: e.version, UptimeMs: (reactor.Now() - e.born) / ms, Clients: e.clientCap.used.Load()}
	draining, paused, suspended := e.stateNow()
	hosts := e.registry.hostMetrics()
	for _, host := range hosts {
		if host.Down {
			h.Failing = append(h.Failing, host.Host)
		}
	}
	switch {
	case !e.started.Load():
		h.Reason = "starting"
	case draining:
		h.Reason = "draining"
	case suspended:
		h.Reason = "suspended"
	case paused:
		h.Reason = "paused"
	case len(hosts) > 0 && len(h.Failing) == len(hosts):
		h.Reason = "no_backend"
		h.Detail = "no PostgreSQL host answers: " + strings.Join(h.Failing, ", ")
	}
	h.Ready = h.Reason == ""
	return h
}

// Performance shows how loaded the process is. What is per second, per transaction or
// a quantile is of the last minute, so far as there is one. Any goroutine.
func (e *Engine) Performance() (rows []view.Performance) {
	add := func(metric string, value float64, unit string) {
		rows = append(rows, view.Performance{Metric: metric, Value: value, Unit: unit})
	}
	now := e.takeSample()
	then, ok := e.sampler.since(now.at, int64(samplesKept-1)*int64(sampleEvery))
	if !ok {
		return nil
	}
	add("loops", float64(len(e.workers)), "")
	for i, ratio := range e.busy(now.at) {
		add(fmt.Sprintf("loop_%d_busy", i), ratio, "ratio")
	}
	seconds := max(float64(now.at-then.at)/1e9, 1e-3)
	done := now.traffic
	for i := range done {
		done[i] -= then.traffic[i]
	}
	add("window", seconds, "s")
	add("transactions", float64(done[trafficXacts])/seconds, "1/s")
	add("queries", float64(done[trafficQueries])/seconds, "1/s")
	for _, k := range []struct {
		name      string
		now, then view.Histogram
	}{
		{"query", now.took[durationQuery], then.took[durationQuery]},
		{"transaction", now.took[durationXact], then.took[durationXact]},
		{"wait", now.waits, then.waits},
	} {
		lately := difference(k.now, k.then)
		add(k.name+"_p50", lately.BoundedMs(0.50), "ms")
		add(k.name+"_p99", lately.BoundedMs(0.99), "ms")
	}
	add("cpu", float64(now.cpu-then.cpu)/1e9/seconds, "CPUs")
	add("cpu_per_transaction", float64(now.cpu-then.cpu)/us/float64(max(done[trafficXacts], 1)), "us")
	resident := residentBytes()
	add("memory", resident, "bytes")
	add("memory_per_client", resident/float64(max(e.clients(), 1)), "bytes")
	add("buffers", float64(reactor.BufferBytes()), "bytes")
	add("buffers_peak", float64(reactor.BufferPeak()), "bytes")
	add("backend_moves", float64(now.moves-then.moves)/seconds, "1/s")
	return rows
}

// difference is what a histogram has got since then.
func difference(now, then view.Histogram) view.Histogram {
	for i := range now.Counts {
		now.Counts[i] -= then.Counts[i]
	}
	now.SumMs -= then.SumMs
	return now
}

// residentBytes is the memory that the process has in RAM; 0 where the system does
// not tell.
func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	var size, resident int64
	if err != nil {
		return 0
	}
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return float64(resident) * float64(os.Getpagesize())
}

// Mem shows what takes memory. Any goroutine but a loop's.
func (e *Engine) Mem() []view.Mem {
	n := e.takeCensus()
	clients, servers := 0, 0
	for _, k := range n.states {
		clients += k
	}
	for _, k := range n.total.servers {
		servers += k
	}
	rows := []view.Mem{
		memRow("client", sizeOfClient, clients), memRow("server", sizeOfServer, servers),
		memRow("pool", sizeOfPool, len(*e.registry.all.Load())), memRow("route", sizeOfRoute, e.registry.routes.Counts().Routes),
	}
	buffers := view.Mem{Name: "buffers", Size: 1, Used: reactor.BufferBytes(), MemTotal: max(reactor.BufferBytes(), 0)}
	heap := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(heap)
	of := func(i int) int64 { return int64(heap[i].Value.Uint64()) }
	return append(rows, buffers, view.Mem{Name: "heap", Size: 1, Used: of(0), Free: of(1) + of(2), MemTotal: of(3) - of(4)})
}

func memRow(name string, size uintptr, used int) view.Mem {
	return view.Mem{Name: name, Size: int64(size), Used: int64(used), MemTotal: int64(size) * int64(used)}
}

// Sizes of what there is one of for each; buffers and what hangs on them not counted.
const (
	sizeOfClient = unsafe.Sizeof(client{})
	sizeOfServer = unsafe.Sizeof(server{})
	sizeOfPool   = unsafe.Sizeof(pool{})
	sizeOfRoute  = unsafe.Sizeof(route{})
)
