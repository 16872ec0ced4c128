package engine

// What the tests of logins reach in from outside.

import (
	"context"
	"sync"

	"pgkinetic/engine/reactor"
)

// HoldHelpers takes all that may compute, so that no proof and no handshake is computed before release is called; once counts.
func (e *Engine) HoldHelpers() (release func()) {
	for range reactor.HelpersMax() {
		_ = e.helpers.Acquire(context.Background()) // fails with its context only
	}
	return sync.OnceFunc(func() {
		for range reactor.HelpersMax() {
			e.helpers.Release()
		}
	})
}
