//go:build sim

package admission

// simYield parks the running virtual loop until the seeded scheduler picks it again: perhaps, or, when it cannot go on,
// always. The simulator sets it. Exactly one virtual loop runs at a time, so nothing here needs synchronisation.
var simYield func(always bool)

func yield() { pause(false) }

func pause(always bool) {
	if simYield != nil {
		simYield(always)
	}
}

// mutex under the simulator: whoever finds it held lets the other loops go on until it is free.
type mutex struct{ held bool }

func (m *mutex) Lock() {
	pause(false)
	for m.held {
		pause(true)
	}
	m.held = true
}

func (m *mutex) Unlock() {
	m.held = false
	pause(false)
}
