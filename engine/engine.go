// Package engine joins loops, protocol, admission and backends into the running
// pooler: it accepts clients, logs them in, relays their messages to the
// backends that admission grants, and brings backends back to a clean state.
//
// What a newcomer looks for:
//
//	client*.go      a client's states, its messages, its login, its output
//	security.go lookups.go unknown.go  who may log in; the secrets of users; those who have not logged in yet
//	server*.go      a server's states, its answers, opening and closing
//	link.go         where the two meet and part
//	request.go      asking admission; refusals
//	routes.go classes.go  which route a request belongs to
//	settings.go     what may change while it runs
//	control*.go     changing it; PAUSE, SUSPEND, RESUME, DISABLE, KILL
//	views*.go explain.go  what is to be seen of admission
//	prepared*.go answers.go retry.go  prepared statements; answers made here
//	effects.go      what executing a text does to the session
//	client_settings.go client_reset.go  what a client SETs
//	pins*.go clean.go  what keeps a backend, and what undoes it
//	gather.go client_large.go  the pieces of a write; a large Parse
//	recovery.go     a client left while its backend was busy
//	cancel.go       CancelRequest
//	console*.go     operators on the main port
//	listen*.go      LISTEN and NOTIFY
//	timeouts.go     every clock
//	slow.go report.go  the log of slow queries, of refusals, of what was done
//	drain.go        the graceful stop, SHUTDOWN
//	alive.go        whether the loops turn
//	pools.go host.go backing.go  what clients share; what servers are made of
//	candidates.go server_role.go watch.go names.go  which host serves, its role, its addresses
package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/admission"
	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/reactor"
	"pgkinetic/engine/statements"
)

// Engine is one running pooler.
type Engine struct {
	cfg         *configs.Config // as at the start: what cannot change while it runs
	settings    atomic.Pointer[settings]
	log         *slog.Logger
	passed      []int // descriptors of listening sockets
	adm         *admission.Controller
	workers     []*worker
	acceptor    *reactor.Acceptor
	helpers     *reactor.Helpers
	registry    *registry
	statements  *statements.Store
	listeners   *listeners
	names       *nameService
	background  *background
	hostChanges atomic.Uint64 // moves of pools to another host
	keys        *auth.Keys
	throttle    auth.Throttle
	instance    uint64 // the first part of long cancel keys

	clientCap       clientCap // max_clients of the process
	unauthenticated atomic.Int64
	peakUnknown     atomic.Int64 // the most that unauthenticated ever was
	clientIDs       atomic.Uint64
	serverIDs       atomic.Uint64

	turnBound  time.Duration // the constant, but in tests
	sampler    sampler
	version    string // as Health tells it
	born       int64
	operating  sync.Mutex  // lets one change of settings or pauses in at a time
	pausedAll  *pause      // of the process; under operating
	suspension *suspension // of the process; under operating
	started    atomic.Bool
	draining   atomic.Bool
	suspended  atomic.Bool
	silences   atomic.Int64 // servers that did not answer server_check_query
	drain      drain
	failed     atomic.Pointer[error]
	failOnce   sync.Once
	failure    chan struct{}
	running    sync.WaitGroup
	consoles   consoles
	reporter   *reporter
}

const (
	readBudget     = 256 << 10 // bytes read per event and socket
	helperQueue    = 4096
	stopPoll       = 10 * time.Millisecond
	stopGrace      = 2 * time.Second
	stuckGrace     = time.Second // what a loop gets to turn again, of a process that was stopped itself
	loopFailDrain  = time.Second // what other loops get when one has failed
	maxLoopsOfKeys = 256
)

// New prepares an engine for cfg and opens its listeners. Errors name what is
// wrong and the remedy. Nothing runs until Start.
func New(cfg *configs.Config, log *slog.Logger, more ...Option) (*Engine, error) {
	loops := loopCount(cfg.Server.Loops, runtime.GOMAXPROCS(0))
	e := &Engine{cfg: cfg, born: reactor.Now(), log: log, failure: make(chan struct{}), turnBound: turnBound}
	e.background = newBackground()
	e.names = newNameService(e)
	e.drain.requests, e.drain.logEvery = make(chan view.ShutdownMode, shutdownsQueued), drainLogEvery
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails on Linux
	e.instance = binary.BigEndian.Uint64(b[:])
	e.settings.Store(newSettings(1, cfg, nil, nil, nil))
	e.consoles.ctx, e.consoles.stop = context.WithCancel(context.Background())
	for _, o := range more {
		o(e)
	}
	var err error
	if s := e.settings.Load(); s.security == nil {
		if s.security, err = newSecurity(cfg, s.origins); err != nil {
			return nil, err
		}
	}
	e.keys = auth.NewKeys()
	e.clientCap.max.Store(int64(cfg.Server.MaxClients))
	e.adm = admission.New(admission.Options{
		Loops: loops, FIFOSlack: int64(cfg.Admission.FifoSlackMs) * ms,
		MaxWaiters: cfg.Capacity.MaxCheckoutWaiters, MaxConnectsPerHost: cfg.Admission.MaxConnectsPerHost,
	})
	e.registry = newRegistry(e, loops)
	e.statements = statements.NewStore()
	e.listeners = newListeners(e)
	if err := e.makeWorkers(loops); err != nil {
		e.release()
		return nil, err
	}
	if err := e.listen(); err != nil {
		e.release()
		return nil, err
	}
	return e, nil
}

// Option tells New more than it needs.
type Option func(*Engine)

// WithOrigins tells where the settings came from, for the views of limits.
func WithOrigins(o *configs.Origins) Option {
	return func(e *Engine) { e.settings.Store(newSettings(1, e.cfg, o, nil, nil)) }
}

// WithListeners gives New listening sockets that are open already, TCP or Unix.
// They are served beside what the settings say, in the place of those that would
// have the same address. They belong to the engine from then on; files of Unix
// sockets among them are left alone.
func WithListeners(descriptors []int) Option {
	return func(e *Engine) { e.passed = descriptors }
}

// WithVersion tells what Health gives as the version.
func WithVersion(version string) Option { return func(e *Engine) { e.version = version } }

// raise lifts a peak to n if it is lower.
func raise(peak *atomic.Int64, n int64) {
	for {
		old := peak.Load()
		if n <= old || peak.CompareAndSwap(old, n) {
			return
		}
	}
}

// loopCount is the number of loops for a setting and a number of CPUs: one CPU
// is left to the helpers and to the kernel's share of the work.
func loopCount(setting, cpus int) int {
	if setting == 0 {
		setting = max(cpus-1, 1)
	}
	return min(setting, maxLoopsOfKeys, admission.MaxLoops)
}

// Processors is the GOMAXPROCS that the engine wants: one per loop, so that a
// loop that comes back from a wait always finds one free, and those of the
// helpers.
func (e *Engine) Processors() int { return len(e.workers) + reactor.HelpersMax() }

func (e *Engine) makeWorkers(loops int) error {
	for i := range loops {
		w := &worker{id: i, eng: e, log: e.log, adm: e.adm, statements: statements.NewCache(e.statements)}
		w.mail.wake.Kind = msgMail
		w.cancels.w = w
		w.slow.set(e.cfg)
		w.tick.Init(tickHandler{w})
		loop, err := reactor.NewLoop(i, reactor.LoopOptions{OnMessage: w.onMessage, OnFailure: e.loopFailed, Ring: e.cfg.Server.IOUring})
		if err != nil {
			return fmt.Errorf("cannot start an event loop: %w; raise the limit of open files", err)
		}
		if err := loop.RingError(); err != nil && i == 0 {
			e.log.Info("no io_uring: each connection is written by a system call of its own", "why", err)
		}
		w.loop = loop
		e.adm.Bind(i, w)
		e.workers = append(e.workers, w)
	}
	return nil
}

func (e *Engine) listen() error {
	o := acceptorOptions(e.cfg)
	for _, w := range e.workers {
		o.Loops = append(o.Loops, w.loop)
	}
	o.Passed = e.passed
	o.OnAccept = func(l *reactor.Loop, c *reactor.Accepted) { e.workers[l.ID].accept(c) }
	o.Admit = e.admitSocket
	o.Crowded = func() bool { return e.helpers.Crowded() }
	o.OnStall = func(err error) {
		e.log.Warn("accepting paused: no descriptors or memory left; raise the limit of open files", "error", err)
	}
	o.OnFailure = e.fail
	a, err := reactor.Listen(o)
	if err != nil {
		return err
	}
	e.acceptor = a
	return nil
}

// acceptorOptions are those of settings that can change while it runs.
func acceptorOptions(cfg *configs.Config) reactor.AcceptorOptions {
	s := &cfg.Server
	return reactor.AcceptorOptions{
		Addresses: s.Listen, UnixDir: s.UnixSocketDir, UnixPort: s.SocketPort(), UnixMode: fs.FileMode(s.SocketMode()),
		Backlog: s.Backlog, KeepaliveMs: s.TCPKeepaliveMs, UserTimeoutMs: s.TCPUserTimeoutMs,
	}
}

// relisten listens as cfg says; after an error as before.
func (e *Engine) relisten(cfg *configs.Config) error {
	opened, closed, err := e.acceptor.Change(acceptorOptions(cfg))
	for _, l := range opened {
		e.log.Info("listening", "network", l.Network, "address", l.Address)
	}
	for _, l := range closed {
		e.log.Info("not listening any more", "network", l.Network, "address", l.Address)
	}
	return err
}

// Start runs loops and acceptor. It returns at once.
func (e *Engine) Start() {
	for _, w := range e.workers {
		w.turned.Store(reactor.Now())
	}
	e.started.Store(true)
	e.registry.stand(e.settings.Load())
	e.helpers = reactor.NewHelpers(0, helperQueue, func(err error) { e.log.Error("helper failed", "error", err) })
	spare := runtime.GOMAXPROCS(0) > len(e.workers)
	for _, w := range e.workers {
		if spare {
			w.loop.HasSpare()
		}
		w.loop.Wheel().Schedule(&w.tick, reactor.Now()+tickInterval)
		e.running.Add(1)
		go func() {
			defer e.running.Done()
			_ = w.loop.Run() // a failure reaches loopFailed
		}()
	}
	e.sampler.begin(e)
	e.acceptor.Start()
	e.startReporter()
}

// Listeners gives the addresses that clients can connect to now.
func (e *Engine) Listeners() []*reactor.Listener { return e.acceptor.Listeners() }

// Failed is closed when a loop or the acceptor has failed: the caller drains.
func (e *Engine) Failed() <-chan struct{} { return e.failure }

// loopFailed: a loop stopped by a panic or a failing poller. Its sockets are
// closed; what it held is lost, so the process cannot keep its promises for
// long: it is drained.
func (e *Engine) loopFailed(l *reactor.Loop, err error) {
	e.fail(fmt.Errorf("event loop %d failed: %w", l.ID, err))
}

func (e *Engine) fail(err error) {
	e.failed.CompareAndSwap(nil, &err)
	e.log.Error("a part of the process failed; draining", "error", err)
	e.failOnce.Do(func() { close(e.failure) })
}

// Stop ends loops and acceptor and releases everything. It blocks until done; with a
// loop that does not turn it cannot be done, and that is the error.
func (e *Engine) Stop() error {
	for end := time.Now().Add(stuckGrace); e.stuck(); time.Sleep(stopPoll) {
		if time.Now().After(end) {
			return fmt.Errorf("nothing is closed: %w", e.Alive())
		}
	}
	e.acceptor.Close()
	e.listeners.close()
	e.consoles.leave()
	for _, w := range e.workers {
		if !w.loop.Stopped() {
			bye := &reactor.Message{Kind: msgBye}
			w.loop.Post(bye)
		}
	}
	if !e.loopsEnd() {
		return fmt.Errorf("not all is closed: %w", e.Alive())
	}
	e.sampler.end()
	e.consoles.close()
	e.reporter.close()
	e.registry.closeLookups()
	e.background.close()
	e.helpers.Close()
	if err := e.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// stuck tells that a loop runs and does not turn.
func (e *Engine) stuck() bool {
	return slices.ContainsFunc(e.workers, func(w *worker) bool { return !w.loop.Stopped() && !w.turns(e.turnBound) })
}

// loopsEnd waits for the loops, as long as those that run turn.
func (e *Engine) loopsEnd() bool {
	ended := make(chan struct{})
	go func() {
		e.running.Wait()
		close(ended)
	}()
	for !closed(ended) {
		if e.stuck() {
			return false
		}
		select {
		case <-ended:
		case <-time.After(stopPoll):
		}
	}
	return true
}

// Discard releases an engine that was never started.
func (e *Engine) Discard() {
	e.acceptor.Close()
	e.release()
}

// release undoes a New that failed half way.
func (e *Engine) release() {
	for _, w := range e.workers {
		w.loop.Stop()
		_ = w.loop.Run()
	}
}
