// Package admintest stands in for a running pooler in tests of what operators reach
// it by: all that is to be seen is there, and nothing of it is zero.
package admintest

import (
	"fmt"
	"iter"
	"reflect"
	"slices"
	"time"

	"pgkinetic/admin"
	"pgkinetic/admin/view"
)

// Fill sets every field of what a pointer leads to, each to another value: numbers
// count up, texts are made of them, booleans are true, slices that are empty get two
// elements.
func Fill(target any) {
	n := 0
	fill(reflect.ValueOf(target).Elem(), &n)
}

func fill(v reflect.Value, n *int) {
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(*n) * time.Second)))
	case v.Type() == reflect.TypeFor[view.Histogram]():
		v.Set(reflect.ValueOf(histogram(uint64(*n))))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case v.Kind() == reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		}
		for i := range v.Len() {
			fill(v.Index(i), n)
		}
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("text%d", *n))
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(int64(*n))
	case v.CanUint():
		v.SetUint(uint64(*n))
	case v.CanFloat():
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic(fmt.Sprintf("BUG: a row has a %s", v.Type()))
	}
}

// histogram has as many buckets as the pooler's own.
func histogram(n uint64) view.Histogram {
	h := view.Histogram{SumMs: float64(n) + 0.25}
	for i := range uint64(18) {
		h.BoundsMs, h.Counts = append(h.BoundsMs, 0.25*float64(uint64(1)<<i)), append(h.Counts, n+i)
	}
	h.Counts = append(h.Counts, n)
	return h
}

// Control has Rows filled rows of every view. The commands are those of the embedded
// Control: without one, who calls a command panics.
type Control struct {
	admin.Control
	Rows    int
	Healthy view.Health
	Stuck   error // what Alive gives
}

func filled[T any](n int) []T { return slices.Collect(sequence[T](n)) }

func sequence[T any](rows int) iter.Seq[T] {
	return func(yield func(T) bool) {
		n := 0
		for range rows {
			var row T
			fill(reflect.ValueOf(&row).Elem(), &n)
			if !yield(row) {
				return
			}
		}
	}
}

// The views.

func (c *Control) Backpressure() []view.Backpressure       { return filled[view.Backpressure](c.Rows) }
func (c *Control) Limits() []view.Limit                    { return filled[view.Limit](c.Rows) }
func (c *Control) Routes() []view.Route                    { return filled[view.Route](c.Rows) }
func (c *Control) Performance() []view.Performance         { return filled[view.Performance](c.Rows) }
func (c *Control) Pinning() []view.Pin                     { return filled[view.Pin](c.Rows) }
func (c *Control) Prepared() iter.Seq[view.Prepared]       { return sequence[view.Prepared](c.Rows) }
func (c *Control) Hosts() []view.Host                      { return filled[view.Host](c.Rows) }
func (c *Control) DNSHosts() []view.DNSHost                { return filled[view.DNSHost](c.Rows) }
func (c *Control) Recovery() []view.Recovery               { return filled[view.Recovery](c.Rows) }
func (c *Control) Errors() []view.Fault                    { return filled[view.Fault](c.Rows) }
func (c *Control) Pools() []view.Pool                      { return filled[view.Pool](c.Rows) }
func (c *Control) Databases() []view.Database              { return filled[view.Database](c.Rows) }
func (c *Control) Users() []view.User                      { return filled[view.User](c.Rows) }
func (c *Control) Stats() []view.Stats                     { return filled[view.Stats](c.Rows) }
func (c *Control) Clients() iter.Seq[view.Client]          { return sequence[view.Client](c.Rows) }
func (c *Control) Servers() iter.Seq[view.Server]          { return sequence[view.Server](c.Rows) }
func (c *Control) Sockets() iter.Seq[view.Socket]          { return sequence[view.Socket](c.Rows) }
func (c *Control) FDs() iter.Seq[view.FD]                  { return sequence[view.FD](c.Rows) }
func (c *Control) Lists() []view.Item                      { return filled[view.Item](c.Rows) }
func (c *Control) Mem() []view.Mem                         { return filled[view.Mem](c.Rows) }
func (c *Control) Config() []view.Setting                  { return filled[view.Setting](c.Rows) }
func (c *Control) State() (active, paused, suspended bool) { return true, true, true }
func (c *Control) Health() view.Health                     { return c.Healthy }
func (c *Control) Alive() error                            { return c.Stuck }

// Metrics are filled, with as many routes as there are rows. One host is down, one is up.
func (c *Control) Metrics() *view.Metrics {
	m := &view.Metrics{Routes: make([]view.RouteMetrics, c.Rows)}
	Fill(m)
	m.Health, m.Hosts[1].Down = c.Healthy, false
	return m
}

// Explain answers every request alike.
func (c *Control) Explain(view.Request) ([]view.Explained, error) {
	return filled[view.Explained](c.Rows), nil
}
