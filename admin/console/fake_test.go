package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/admin/view"
)

// fake is a pooler whose views have two rows, no field of which is zero, and which
// notes what it is told to do.
type fake struct {
	mu    sync.Mutex
	calls []string

	fail  error // of every command
	block bool  // commands that wait do so until their context ends
	large int   // clients; 0: two
	begun chan struct{}
	done  chan struct{}
	taken int // clients that were made
}

// filled gives n rows of a view, all fields set, so that what shows nothing shows.
func filled[T any](n int) []T {
	rows := make([]T, n)
	for i := range rows {
		v := reflect.ValueOf(&rows[i]).Elem()
		for j := range v.NumField() {
			fill(v.Field(j), v.Type().Field(j).Name, 100*(i+1)+j)
		}
	}
	return rows
}

func fill(f reflect.Value, name string, n int) {
	switch {
	case f.Type() == reflect.TypeFor[time.Time]():
		f.Set(reflect.ValueOf(time.Date(2026, 1, 2, 3, 4, n%60, 0, time.UTC)))
	case f.Kind() == reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
		fill(f.Elem(), name, n)
	case f.Kind() == reflect.Struct:
		for j := range f.NumField() {
			fill(f.Field(j), name, n*100+j)
		}
	case f.Kind() == reflect.String:
		f.SetString(fmt.Sprintf("%s-%d", strings.ToLower(name), n))
	case f.Kind() == reflect.Bool:
		f.SetBool(true)
	case f.CanFloat():
		f.SetFloat(float64(n) + 0.5)
	case f.CanUint():
		f.SetUint(uint64(n))
	default:
		f.SetInt(int64(n))
	}
}

func (f *fake) Backpressure() []view.Backpressure { return filled[view.Backpressure](2) }
func (f *fake) Limits() []view.Limit              { return filled[view.Limit](2) }
func (f *fake) Routes() []view.Route              { return filled[view.Route](2) }
func (f *fake) Performance() []view.Performance   { return filled[view.Performance](2) }
func (f *fake) Pinning() []view.Pin               { return filled[view.Pin](2) }
func (f *fake) Prepared() iter.Seq[view.Prepared] { return slices.Values(filled[view.Prepared](2)) }
func (f *fake) Recovery() []view.Recovery         { return filled[view.Recovery](2) }
func (f *fake) Errors() []view.Fault              { return filled[view.Fault](2) }
func (f *fake) Pools() []view.Pool                { return filled[view.Pool](2) }
func (f *fake) Databases() []view.Database        { return filled[view.Database](2) }
func (f *fake) Users() []view.User                { return filled[view.User](2) }
func (f *fake) Stats() []view.Stats               { return filled[view.Stats](2) }
func (f *fake) Servers() iter.Seq[view.Server]    { return slices.Values(filled[view.Server](2)) }
func (f *fake) Sockets() iter.Seq[view.Socket]    { return slices.Values(filled[view.Socket](2)) }
func (f *fake) FDs() iter.Seq[view.FD]            { return slices.Values(filled[view.FD](2)) }
func (f *fake) Lists() []view.Item                { return filled[view.Item](2) }
func (f *fake) Mem() []view.Mem                   { return filled[view.Mem](2) }
func (f *fake) Config() []view.Setting            { return filled[view.Setting](2) }
func (f *fake) State() (active, paused, suspended bool) {
	return false, true, false
}

func (f *fake) Clients() iter.Seq[view.Client] {
	if f.large == 0 {
		return slices.Values(filled[view.Client](2))
	}
	row := filled[view.Client](1)[0]
	return func(yield func(view.Client) bool) {
		for i := range f.large {
			f.taken++
			row.ID = uint64(i)
			if !yield(row) {
				return
			}
		}
	}
}

func (f *fake) Metrics() *view.Metrics { panic("the console shows no metrics") }
func (f *fake) Health() view.Health    { panic("the console shows no health") }
func (f *fake) Alive() error           { panic("the console does not ask") }

func (f *fake) Explain(r view.Request) ([]view.Explained, error) {
	if r.Database == "nowhere" {
		return nil, errors.New(`no such database: "nowhere"; nearest: "app"`)
	}
	f.note("explain", fmt.Sprintf("%+v", r))
	return filled[view.Explained](2), nil
}

func (f *fake) note(what string, args ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, strings.Join(append([]string{what}, args...), " "))
	return f.fail
}

// wait notes a command that waits.
func (f *fake) wait(ctx context.Context, what string, args ...string) error {
	err := f.note(what, args...)
	if f.block {
		f.begun <- struct{}{}
		<-ctx.Done()
		f.done <- struct{}{}
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	return err
}

func (f *fake) Pause(ctx context.Context, s view.Scope) error {
	return f.wait(ctx, "pause", s.String())
}

func (f *fake) Resume(s view.Scope) error  { return f.note("resume", s.String()) }
func (f *fake) Reconnect(db string) error  { return f.note("reconnect", db) }
func (f *fake) Kill(db string) error       { return f.note("kill", db) }
func (f *fake) KillClient(id uint64) error { return f.note("kill_client", fmt.Sprint(id)) }
func (f *fake) Disable(db string) error    { return f.note("disable", db) }
func (f *fake) Enable(db string) error     { return f.note("enable", db) }
func (f *fake) WaitClose(ctx context.Context, db string) error {
	return f.wait(ctx, "wait_close", db)
}
func (f *fake) Suspend(ctx context.Context) error { return f.wait(ctx, "suspend") }
func (f *fake) Reload() ([]string, error) {
	return []string{"server.loops: 4 does not hold until a restart", "server.backlog: 9 does not hold until a restart"}, f.note("reload")
}
func (f *fake) Shutdown(m view.ShutdownMode) error { return f.note("shutdown", fmt.Sprint(m)) }
func (f *fake) SetLimit(name, value string) error  { return f.note("set", name, value) }
func (f *fake) SetRoute(route, setting, value string) error {
	return f.note("set route", route, setting, value)
}

// did takes what the pooler was told since the last call.
func (f *fake) did() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := strings.Join(f.calls, "; ")
	f.calls = nil
	return calls
}

// TestFilledRows: the rows of these tests hold nothing that looks like no value.
func TestFilledRows(t *testing.T) {
	v := reflect.ValueOf(filled[view.Database](1)[0])
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is zero", v.Type().Field(i).Name)
		}
	}
}
