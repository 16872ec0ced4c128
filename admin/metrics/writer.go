package metrics

import (
	"io"
	"slices"
	"strconv"
	"unicode/utf8"

	"pgkinetic/admin/view"
)

// State: a writer is one exposition under way; it belongs to the goroutine that
// writes. Invariants: at most flushAt bytes and one sample, or the buckets of one
// distribution, wait in buf; after an error nothing more is written.

const (
	flushAt = 32 << 10
	// spare is room for what is written between two looks at flushAt: the buckets of a
	// distribution whose labels are as long as names get.
	spare = 16 << 10
)

type writer struct {
	to      io.Writer
	buf     []byte
	err     error
	metric  *Metric // whose samples are written
	version string

	// Most of an exposition is buckets, whose lines differ in little.
	prefix []byte   // of the lines of a distribution, up to the value of le
	bounds []string // as le shows the bounds, +Inf included,
	of     []float64
}

// begin writes what stands before the samples of a metric.
func (w *writer) begin(m *Metric) {
	w.metric = m
	w.buf = append(append(append(append(w.buf, "# HELP "...), m.Name...), ' '), m.Help...)
	w.buf = append(append(append(append(w.buf, "\n# TYPE "...), m.Name...), ' '), m.Type...)
	w.buf = append(w.buf, '\n')
}

// count writes a sample of the metric: a whole number, with the values of its labels
// in their order.
func (w *writer) count(n uint64, labels ...string) {
	w.series("", labels)
	w.close()
	w.buf = strconv.AppendUint(w.buf, n, 10)
	w.endLine()
}

// gauge writes a sample that may have a fraction.
func (w *writer) gauge(v float64, labels ...string) {
	w.series("", labels)
	w.close()
	w.float(v)
	w.endLine()
}

// histogram writes the samples of one distribution.
func (w *writer) histogram(h *view.Histogram, labels ...string) {
	begin := len(w.buf)
	w.series("_bucket", labels)
	w.label("le")
	w.prefix = append(w.prefix[:0], w.buf[begin:]...)
	w.buf = w.buf[:begin]
	bounds := w.boundsOf(h)
	var total uint64
	for i, n := range h.Counts {
		total += n
		w.buf = append(append(append(w.buf, w.prefix...), bounds[i]...), `"} `...)
		w.buf = append(strconv.AppendUint(w.buf, total, 10), '\n')
	}
	w.series("_sum", labels)
	w.close()
	w.float(h.SumMs)
	w.endLine()
	w.series("_count", labels)
	w.close()
	w.buf = strconv.AppendUint(w.buf, total, 10)
	w.endLine()
}

// boundsOf gives the values of le, which are the same for many distributions.
func (w *writer) boundsOf(h *view.Histogram) []string {
	if w.bounds == nil || !slices.Equal(w.of, h.BoundsMs) {
		w.bounds, w.of = w.bounds[:0], h.BoundsMs
		for _, bound := range h.BoundsMs {
			w.bounds = append(w.bounds, strconv.FormatFloat(bound, 'g', -1, 64))
		}
		w.bounds = append(w.bounds, "+Inf")
	}
	return w.bounds
}

// series writes name, suffix and labels, and leaves the labels open.
func (w *writer) series(suffix string, values []string) {
	w.buf = append(append(w.buf, w.metric.Name...), suffix...)
	for i, name := range w.metric.Labels {
		w.label(name)
		w.buf = appendEscaped(w.buf, values[i])
		w.buf = append(w.buf, '"')
	}
}

// label begins a label; the value and a quote follow. A series that has one already
// ends in a quote.
func (w *writer) label(name string) {
	open := byte('{')
	if w.buf[len(w.buf)-1] == '"' {
		open = ','
	}
	w.buf = append(append(append(w.buf, open), name...), `="`...)
}

func (w *writer) close() {
	if w.buf[len(w.buf)-1] == '"' {
		w.buf = append(w.buf, '}')
	}
	w.buf = append(w.buf, ' ')
}

func (w *writer) float(v float64) { w.buf = strconv.AppendFloat(w.buf, v, 'g', -1, 64) }

func (w *writer) endLine() {
	w.buf = append(w.buf, '\n')
	if len(w.buf) >= flushAt {
		w.flush()
	}
}

func (w *writer) flush() {
	if w.err == nil {
		_, w.err = w.to.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

// appendEscaped writes the value of a label. Names in PostgreSQL are bytes in any
// encoding, and the exposition is UTF-8: a byte that is none is shown as \xNN, so
// that two names stay two.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '\\' || c == '"':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, `\n`...)
		case c < utf8.RuneSelf:
			b = append(b, c)
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				b = append(append(b, `\\x`...), hex[c>>4], hex[c&15])
			} else {
				b = append(b, s[i:i+size]...)
			}
			i += size
			continue
		}
		i++
	}
	return b
}

const hex = "0123456789abcdef"
