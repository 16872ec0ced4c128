package engine

// Hosts of which something bad is known and that no attempt of a pool's own looks at:
// those that are not the present one, and the present one of a pool that needs no
// further backend. A goroutine logs in there now and then, so that what views,
// metrics and readiness tell is true, and a pool that has to move knows where to.
// It also finds the standby that a pool with prefer-standby would rather have.
//
// Owner: host.watched and candidate.watched are claimed by the first loop; what is
// found out goes where attempts put it (HostState).

import (
	"context"
	"errors"
	"sync"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/dial"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

// watchEvery is the time between two looks at a host.
const watchEvery = 5000 * ms

// background is what goroutines have in common that work for the engine as long as it runs.
type background struct {
	ctx     context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
}

func newBackground() *background {
	b := &background{}
	b.ctx, b.stop = context.WithCancel(context.Background())
	return b
}

func (b *background) close() {
	b.stop()
	b.running.Wait()
}

// watchHosts begins the looks that are due.
func (w *worker) watchHosts(now int64) {
	e := w.eng
	if now-w.watchedAt < sweepInterval || e.draining.Load() {
		return
	}
	w.watchedAt = now
	for _, p := range *e.registry.all.Load() {
		b := p.backing.Load()
		for _, c := range b.hosts {
			at := &c.host.watched
			switch {
			case c == b.candidate && p.live() == 0: // it is probed
				continue
			case c.host.state.FailingFor(now) > 0:
			case b.lenient && c != b.candidate:
				at = &c.watched
			default:
				continue
			}
			if last := at.Load(); now-last >= watchEvery && at.CompareAndSwap(last, now) {
				e.background.running.Go(func() { e.watch(p, b, c) })
			}
		}
	}
}

// watch looks at a host of p.
func (e *Engine) watch(p *pool, b *backing, c *candidate) {
	ctx, stop := context.WithTimeout(e.background.ctx, time.Duration(p.limits.Load().ConnectTimeoutMs)*time.Millisecond)
	defer stop()
	fit, err := e.roleAt(ctx, b, c.host)
	now := reactor.Now()
	switch {
	case e.background.ctx.Err() != nil:
		return
	case err != nil && backend.ClassOf(err) == backend.HostFault:
		c.host.state.Failed(now, err)
		return
	}
	if c.host.state.FailingFor(now) > 0 {
		e.log.Info("a host answers again", "host", c.host.name)
	}
	c.host.state.Succeeded(now)
	switch {
	case err != nil:
	case fit != backend.Fits:
		c.role.Failed(now, &backend.RoleError{Host: c.host.name, Attrs: b.entry.TargetSessionAttrs})
	default:
		c.role.Succeeded(now)
		if b.lenient {
			e.workers[0].submit(func(w *worker) bool {
				p.prefer(w, b, c)
				return false
			})
		}
	}
}

// roleAt logs in at h as a backend of b would, and tells whether it does for b's entry.
func (e *Engine) roleAt(ctx context.Context, b *backing, h *host) (backend.Fit, error) {
	cfg := e.dialing(e.settings.Load().security, h, b.login)
	conn, err := dial.Open(ctx, &cfg)
	if err != nil {
		return backend.FitUnknown, err
	}
	defer conn.Close()
	attrs := b.entry.TargetSessionAttrs
	fit := backend.JudgeRole(attrs, conn.Params())
	if fit != backend.FitUnknown {
		return fit, nil
	}
	release := conn.Bound(ctx)
	defer release()
	if err := conn.Send(protocol.AppendQuery(nil, backend.RoleQuery(attrs))); err != nil {
		return fit, err
	}
	for {
		typ, body, err := conn.Receive()
		switch {
		case err != nil:
			return fit, err
		case typ == protocol.BackendDataRow:
			fit = backend.JudgeRoleAnswer(attrs, body)
		case typ == protocol.BackendErrorResponse:
			return fit, &backend.RefusedError{Fields: protocol.DecodeError(body)}
		case typ == protocol.BackendReadyForQuery:
			if fit == backend.FitUnknown {
				return fit, errors.New("no answer to the question for the role")
			}
			return fit, nil
		}
	}
}

// prefer moves p, which had to do with any host, to one that it prefers.
func (p *pool) prefer(w *worker, b *backing, c *candidate) {
	p.renewing.Lock()
	present := p.backing.Load()
	ok := present.era == b.era && present.entry.TargetSessionAttrs == configs.SessionPreferStandby
	if ok {
		p.backing.Store(present.on(c, false))
	}
	p.renewing.Unlock()
	if ok {
		p.moved(w, b.host, c.host, "it is a standby")
	}
}
