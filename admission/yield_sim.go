//go:build sim

package admission

// simYield parks the running virtual loop until the seeded scheduler picks it again; the simulator sets it. Exactly
// one virtual loop runs at a time, so it needs no synchronisation.
var simYield func()

func yield() {
	if simYield != nil {
		simYield()
	}
}

// mutex under the simulator: whoever finds it held lets the other loops go on until it is free.
type mutex struct{ held bool }

func (m *mutex) Lock() {
	yield()
	for m.held {
		yield()
	}
	m.held = true
}

func (m *mutex) Unlock() {
	m.held = false
	yield()
}
