package main

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/engine"
)

// State: a reloader has the settings that hold, the files from which they came as these were then, and how reloads ended.
// Owner: whoever holds mu, one reload at a time; holds and the counters may be read by any goroutine.
// Invariants: holds are what the engine was last given; a reload that fails leaves them, and whatever follows from them, as
// they were; a file that changes after it was read differs from what files say of it.

// reloader reads the settings anew and lets them hold. SIGHUP, RELOAD on the console and the watch of the files come here.
type reloader struct {
	from    source
	engine  *engine.Engine
	manager *manager
	parts   []part
	log     *slog.Logger

	mu    sync.Mutex
	files looks
	holds atomic.Pointer[configs.Config]

	done, failed atomic.Uint64
}

// part is what follows from settings beside the engine. It makes ready what new ones need, or tells why that cannot be had;
// then it is told whether they hold: with true it goes over to them, with false it lets go what it has made ready.
type part func(cfg *configs.Config) (commit func(hold bool), err error)

// newReloader is for an engine that runs under settings just read.
func newReloader(from source, l loaded, e *engine.Engine, m *manager, log *slog.Logger, parts ...part) *reloader {
	r := &reloader{from: from, engine: e, manager: m, log: log, files: l.files, parts: parts}
	r.holds.Store(l.cfg)
	return r
}

// Reload lets the settings hold as they are now in the file, the environment and the flags. The notices are what of them does
// not hold, or not for everybody. After an error, which has been logged, everything goes on as it was; it is an
// engine.ProblemsError where something is wrong in the settings or the files that they name. Any goroutine but a loop's.
func (r *reloader) Reload() (notices []engine.Notice, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.manager.reloading()
	notices, err = r.read()
	if err != nil {
		r.failed.Add(1)
		logFailure(r.log, "not reloaded: everything goes on as it was", err)
	} else {
		r.done.Add(1)
	}
	r.manager.ready(err)
	return notices, err
}

// outcomes counts the reloads so far by how they ended.
func (r *reloader) outcomes() []view.Count {
	return []view.Count{{Label: "ok", N: r.done.Load()}, {Label: "failed", N: r.failed.Load()}}
}

func (r *reloader) read() (notices []engine.Notice, err error) {
	l, err := r.from.load(slices.Collect(maps.Keys(r.files))...)
	r.files = l.files
	if err == nil {
		err = l.ready(r.log)
	}
	if err != nil {
		return nil, err
	}
	var commits []func(bool)
	defer func() {
		for _, commit := range commits {
			commit(err == nil)
		}
	}()
	for _, prepare := range r.parts {
		commit, err := prepare(l.cfg)
		if err != nil {
			return nil, err
		}
		commits = append(commits, commit)
	}
	if notices, err = r.engine.Reload(l.cfg, l.origins); err == nil {
		r.holds.Store(l.cfg)
	}
	return notices, err
}

// onSignals reloads for each signal that comes, until done is closed.
func (r *reloader) onSignals(signals <-chan os.Signal, done <-chan struct{}) {
	for {
		select {
		case <-signals:
			_, _ = r.Reload() // the log has all of it
		case <-done:
			return
		}
	}
}

// changed names the files that are not any more what they were when they were read, if the settings say that they are watched.
func (r *reloader) changed() []string {
	if !r.holds.Load().Reload.Watch {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := looks{}
	now.add(slices.Collect(maps.Keys(r.files))...)
	return now.differ(r.files)
}
