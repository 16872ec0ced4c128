package engine

// What the tests of the reaper reach in from outside.

import (
	"sync"

	"golang.org/x/sys/unix"
)

// HoldLoop lets a loop do nothing until release is called; it has begun to do nothing when HoldLoop returns.
func (e *Engine) HoldLoop(loop int) (release func()) {
	held, free := make(chan struct{}), make(chan struct{})
	e.workers[loop].submit(func(*worker) bool {
		close(held)
		<-free
		return false
	})
	<-held
	return sync.OnceFunc(func() { close(free) })
}

// onLoops runs f on every loop, one after the other.
func (e *Engine) onLoops(f func(*worker)) {
	for _, w := range e.workers {
		w.submit(func(w *worker) bool {
			f(w)
			return false
		}).wait(w)
	}
}

// LoseMoves lets every idle server go through a move to another loop that fails, and counts them. file is a descriptor of a
// regular file, which no poller takes.
func (e *Engine) LoseMoves(file int) (n int) {
	e.onLoops(func(w *worker) {
		for _, s := range append([]*server(nil), w.servers.items...) {
			if s.state != serverIdle {
				continue
			}
			place, fd := s.place, s.sock.FD()
			w.Detach(place)
			_ = unix.Dup3(file, fd, unix.O_CLOEXEC) // should it fail, the move does not, and the test does
			w.Attach(place)
			n++
		}
	})
	return n
}

// Spreads are the parts, in ‰, by which the lives of the open servers are longer or shorter.
func (e *Engine) Spreads() (all []int64) {
	e.onLoops(func(w *worker) {
		for _, s := range w.servers.items {
			all = append(all, s.spread)
		}
	})
	return all
}
