package load

import (
	"context"
	"fmt"
)

// window is how many logins are under way at a time where it is not the logins that are measured: more would overflow the
// queue of sockets that a server with a short one has not accepted, and wait a second for it.
const window = 32

// logins is a handler that logs clients in.
type logins struct {
	loop  *loop
	under int // way
}

// logIn logs all of them in, or gives the first error.
func logIn(ctx context.Context, l *loop, all []*conn) error {
	h := &logins{loop: l}
	l.restart()
	for len(all) > 0 || h.under > 0 {
		for h.under < window && len(all) > 0 {
			if ended(ctx) {
				return ctx.Err()
			}
			h.under++
			if err := l.connect(all[0], h); err != nil {
				return err
			}
			all = all[1:]
		}
		if err := l.turn(int64(poll), h.under, h); err != nil {
			return err
		}
	}
	return nil
}

func (h *logins) ready(*conn) error {
	h.under--
	return nil
}

func (h *logins) copyIn(*conn) error { return errCopyIn }

func (h *logins) lost(_ *conn, err error) error { return fmt.Errorf("login: %w", err) }
