package engine_test

import "pgkinetic/engine"

// pinsOfAll is how many pins there were, of all reasons.
func pinsOfAll(e *engine.Engine) (n uint64) {
	for _, k := range e.Totals().Pins {
		n += k
	}
	return n
}
