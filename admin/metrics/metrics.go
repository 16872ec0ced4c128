// Package metrics writes what the pooler counts in Prometheus's text format. Table
// is the one list of names, labels and meanings: the samples are written from it,
// and docs/metrics.md and the tests of alert rules and dashboard read it. The
// process's and the Go runtime's own metrics come from VictoriaMetrics/metrics.
package metrics

//go:generate go test -run TestReferencePage -update .

import (
	"io"

	runtime "github.com/VictoriaMetrics/metrics"

	"pgkinetic/admin/view"
)

// ContentType is that of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Type is how a metric behaves.
type Type string

// The types.
const (
	Counter   Type = "counter" // since the start; never falls
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Metric is a row of Table.
type Metric struct {
	Name   string
	Type   Type
	Labels []string // in the order in which they are written; le of a histogram comes behind them
	Help   string   // one line, no backslash; behind a colon the values of the last label
	write  func(*writer, *view.Metrics)
}

// Write writes one snapshot and, behind it, the state of this process. It allocates
// little beside one buffer, and gives to's error.
func Write(to io.Writer, m *view.Metrics, version string) error {
	w := writer{to: to, buf: make([]byte, 0, flushAt+spare), version: version}
	for i := range Table {
		w.begin(&Table[i])
		Table[i].write(&w, m)
		if w.err != nil {
			return w.err
		}
	}
	w.flush()
	if w.err != nil {
		return w.err
	}
	guarded := failing{to: to}
	runtime.WriteProcessMetrics(&guarded)
	writeDescriptors(&guarded)
	return guarded.err
}

// The library's switch is the process's: HELP and TYPE lines before its metrics.
func init() { runtime.ExposeMetadata(true) }

// failing keeps the first error of a writer whose caller looks at none.
type failing struct {
	to  io.Writer
	err error
}

func (f *failing) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.to.Write(p)
	f.err = err
	return n, err
}
