package engine

// What the tests of logins reach in from outside.

import (
	"context"
	"sync"

	"pgkinetic/engine/reactor"
)

// HoldHelpers takes all that may compute, so that no proof and no handshake is computed before release is called; once counts.
func (e *Engine) HoldHelpers() (release func()) {
	var held []reactor.Token
	for range reactor.HelpersMax() {
		token, _ := e.helpers.Acquire(context.Background()) // fails with its context only
		held = append(held, token)
	}
	return sync.OnceFunc(func() {
		for _, token := range held {
			e.helpers.Release(token)
		}
	})
}
