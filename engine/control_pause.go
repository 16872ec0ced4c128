package engine

// PAUSE and RESUME of the process, of a database, of a route.
//
// A pause holds at once: requests in flight end as usual, whoever comes waits.
// Pause returns when nothing is in flight any more. What is made while its
// database or route is paused is paused from its beginning, so a pause holds for
// names, and admission's own bits follow them.
//
// Owner: registry.pausedDatabases the registry's mutex; registry.pausedRoutes the
// directory's mutex, by being used in its callbacks only; Engine.pausedAll
// Engine.operating. All of them change under Engine.operating as well.
//
// Invariants: a pool is paused while a name in pausedDatabases means it, a route
// while one in pausedRoutes does; a pause's resumed is closed once, when its name
// is taken out and whoever waited has been let go.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/admission/routing"
	"pgkinetic/engine/reactor"
)

// ErrResumed: what was to be paused was resumed before all requests had ended.
var ErrResumed = errors.New("resumed before the pause was complete")

// ErrNotPaused: there is nothing to resume.
var ErrNotPaused = errors.New("not paused")

// pause is one pause while it lasts.
type pause struct {
	resumed chan struct{}
}

// drainPoll is how often a pause looks whether it is complete.
const drainPoll = 5 * time.Millisecond

// Pause stops admission in scope at once, and returns when nothing is in flight
// there any more: nil; when it is resumed before: ErrResumed; or when ctx ends:
// its error, and the pause stays. A scope that is paused already is waited for
// likewise. Any goroutine but a loop's.
func (e *Engine) Pause(ctx context.Context, scope view.Scope) error {
	e.operating.Lock()
	var p *pause
	var busy func() bool
	var err error
	switch {
	case !e.started.Load():
		err = ErrNotRunning
	case scope.Database != "" && scope.Route != "":
		err = errors.New("pause a database or a route, not both at once")
	case scope.Database != "":
		p, busy, err = e.pauseDatabase(scope.Database)
	case scope.Route != "":
		p, busy, err = e.pauseRoute(scope.Route)
	default:
		p, busy, err = e.pauseAll()
	}
	if err == nil {
		e.walk(func(*worker) {}, (*client).rearm)
	}
	e.operating.Unlock()
	if err != nil {
		return err
	}
	e.log.Info("paused", "scope", scope.String())
	return e.awaitPause(ctx, p, busy)
}

func (e *Engine) awaitPause(ctx context.Context, p *pause, busy func() bool) error {
	poll := time.NewTicker(drainPoll)
	defer poll.Stop()
	for busy() {
		select {
		case <-p.resumed:
			return ErrResumed
		case <-ctx.Done():
			return fmt.Errorf("paused, but requests are still in flight: %w", ctx.Err())
		case <-poll.C:
			if e.allStopped() {
				return ErrNotRunning
			}
		}
	}
	return nil
}

// stateNow tells how the process stands as a whole. Any goroutine.
func (e *Engine) stateNow() (draining, paused, suspended bool) {
	return e.draining.Load(), e.adm.Paused(), e.suspended.Load()
}

func (e *Engine) allStopped() bool {
	return !slices.ContainsFunc(e.workers, func(w *worker) bool { return !w.loop.Stopped() })
}

// busyOf tells whether some item is busy; one that was not never is again.
func busyOf[T any](items []T, busy func(T) bool) func() bool {
	left := slices.Clone(items)
	return func() bool {
		left = slices.DeleteFunc(left, func(item T) bool { return !busy(item) })
		return len(left) > 0
	}
}

func poolBusy(p *pool) bool { return !p.adm.Drained() }

func (e *Engine) pauseAll() (*pause, func() bool, error) {
	if e.pausedAll == nil {
		e.pausedAll = &pause{resumed: make(chan struct{})}
	}
	err := e.onLoop(func(w *worker) { e.adm.Pause(w.id, w.now()) })
	return e.pausedAll, busyOf(*e.registry.all.Load(), poolBusy), err
}

func (e *Engine) pauseDatabase(name string) (*pause, func() bool, error) {
	r := e.registry
	r.mu.Lock()
	if err := e.checkDatabase(name); err != nil {
		r.mu.Unlock()
		return nil, nil, err
	}
	p := cached(r.pausedDatabases, name, func() *pause { return &pause{resumed: make(chan struct{})} })
	pools := r.poolsIn(name)
	r.mu.Unlock()
	err := each(e, pools, func(w *worker, p *pool) { p.adm.Pause(w.id, w.now()) })
	return p, busyOf(pools, poolBusy), err
}

// poolsIn gives the pools of a database; r.mu is held.
func (r *registry) poolsIn(name string) (pools []*pool) {
	for _, p := range r.pools {
		if p.inDatabase(name) {
			pools = append(pools, p)
		}
	}
	return pools
}

func (e *Engine) pauseRoute(name string) (*pause, func() bool, error) {
	r := e.registry
	known := e.routeNames(e.settings.Load())
	for n := range r.pausedRouteNames() {
		known[n] = true
	}
	if !known[name] {
		return nil, nil, unknown("route", name, slices.Collect(maps.Keys(known)))
	}
	var p *pause
	var routes []*route
	r.routes.EachAfter(func() {
		p = cached(r.pausedRoutes, name, func() *pause { return &pause{resumed: make(chan struct{})} })
	}, func(_ *pool, _ routing.Identity, rt *route) {
		if rt.named(name) {
			routes = append(routes, rt)
		}
	})
	err := each(e, routes, func(w *worker, rt *route) { rt.adm.Pause(w.id, w.now()) })
	return p, busyOf(routes, func(rt *route) bool { return rt.adm.Counts().InFlight > 0 }), err
}

// pausedRouteNames copies the names of paused routes.
func (r *registry) pausedRouteNames() (names map[string]*pause) {
	r.routes.EachAfter(func() { names = maps.Clone(r.pausedRoutes) }, func(*pool, routing.Identity, *route) {})
	return names
}

// Resume ends the pause of a scope (of the process: and its suspension) and lets its
// waiters go at once. What is paused by another name, or with the whole process,
// stays so. Any goroutine but a loop's.
func (e *Engine) Resume(scope view.Scope) error {
	e.operating.Lock()
	defer e.operating.Unlock()
	var p *pause
	var err error
	switch {
	case !e.started.Load():
		return ErrNotRunning
	case scope.Database != "" && scope.Route != "":
		return errors.New("resume a database or a route, not both at once")
	case scope.Database != "":
		p, err = e.resumeDatabase(scope.Database)
	case scope.Route != "":
		p, err = e.resumeRoute(scope.Route)
	default:
		p, err = e.resumeAll()
	}
	if err != nil || p == nil {
		return err
	}
	e.walk(func(*worker) {}, (*client).rearm)
	close(p.resumed)
	e.log.Info("resumed", "scope", scope.String())
	return nil
}

func (e *Engine) resumeAll() (*pause, error) {
	p := e.pausedAll
	if e.endSuspension() && p == nil {
		return nil, nil
	}
	if p == nil {
		return nil, fmt.Errorf("the process is %w", ErrNotPaused)
	}
	forgetFailures(*e.registry.all.Load())
	if err := e.onLoop(func(w *worker) { e.adm.Resume(w.id, w.now()) }); err != nil {
		return nil, err
	}
	e.pausedAll = nil
	return p, nil
}

func (e *Engine) resumeDatabase(name string) (*pause, error) {
	r := e.registry
	r.mu.Lock()
	p := r.pausedDatabases[name]
	if p == nil {
		err := e.checkDatabase(name)
		r.mu.Unlock()
		if err == nil {
			err = fmt.Errorf("database %q is %w", name, ErrNotPaused)
		}
		return nil, err
	}
	delete(r.pausedDatabases, name)
	pools := slices.DeleteFunc(r.poolsIn(name), r.holdsPool)
	r.mu.Unlock()
	forgetFailures(pools)
	return p, each(e, pools, func(w *worker, p *pool) { p.adm.Resume(w.id, w.now()) })
}

// holdsPool tells whether a pause of its database means p; r.mu is held.
func (r *registry) holdsPool(p *pool) bool {
	for name := range r.pausedDatabases {
		if p.inDatabase(name) {
			return true
		}
	}
	return false
}

func (e *Engine) resumeRoute(name string) (*pause, error) {
	r := e.registry
	var p *pause
	var others map[string]*pause
	var routes []*route
	r.routes.EachAfter(func() {
		p = r.pausedRoutes[name]
		delete(r.pausedRoutes, name)
		others = maps.Clone(r.pausedRoutes)
	}, func(_ *pool, _ routing.Identity, rt *route) {
		if p != nil && rt.named(name) && !rt.heldBy(others) {
			routes = append(routes, rt)
		}
	})
	if p == nil {
		known := e.routeNames(e.settings.Load())
		if !known[name] {
			return nil, unknown("route", name, slices.Collect(maps.Keys(known)))
		}
		return nil, fmt.Errorf("route %q is %w", name, ErrNotPaused)
	}
	return p, each(e, routes, func(w *worker, rt *route) { rt.adm.Resume(w.id, w.now()) })
}

func (rt *route) heldBy(names map[string]*pause) bool {
	for name := range names {
		if rt.named(name) {
			return true
		}
	}
	return false
}

// bornRoute pauses a new route whose name is paused. Inside the directory's mutex.
func (r *registry) bornRoute(rt *route) *route {
	if rt.heldBy(r.pausedRoutes) {
		rt.adm.Hold(reactor.Now())
	}
	return rt
}
