package console

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"

	"pgkinetic/admin/admintest"
	"pgkinetic/admin/view"
)

// fake is a pooler whose views have two rows, no field of which is zero, and which
// notes what it is told to do.
type fake struct {
	admintest.Control

	mu    sync.Mutex
	calls []string

	fail  error // of every command
	block bool  // commands that wait do so until their context ends
	large int   // clients; 0: two
	begun chan struct{}
	done  chan struct{}
	taken int // clients that were made
}

func newFake() *fake { return &fake{Control: admintest.Control{Rows: 2}} }

func (f *fake) State() (active, paused, suspended bool) { return false, true, false }

func (f *fake) Clients() iter.Seq[view.Client] {
	if f.large == 0 {
		return f.Control.Clients()
	}
	var row view.Client
	admintest.Fill(&row)
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

func (f *fake) Explain(r view.Request) ([]view.Explained, error) {
	if r.Database == "nowhere" {
		return nil, errors.New(`no such database: "nowhere"; nearest: "app"`)
	}
	f.note("explain", fmt.Sprintf("%+v", r))
	return f.Control.Explain(r)
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
func (f *fake) Disconnect(db string) error { return f.note("disconnect", db) }
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
