package engine

// slotTable gives each logged-in client of a worker the number that its cancel
// key names. A slot is reused with a new generation, so an old key names nobody.
//
// Owner: the worker. Invariant: table[i] is nil exactly when i is in free.

type slotTable struct {
	table []*client
	gens  []uint8
	free  []uint16
}

// maxSlots is what the 16 bits of a key can name; further clients of a worker
// work but cannot be cancelled.
const maxSlots = 1 << 16

func (t *slotTable) register(c *client) {
	switch {
	case len(t.free) > 0:
		c.slot = t.free[len(t.free)-1]
		t.free = t.free[:len(t.free)-1]
	case len(t.table) < maxSlots:
		c.slot = uint16(len(t.table))
		t.table = append(t.table, nil)
		t.gens = append(t.gens, 0)
	default:
		return
	}
	t.gens[c.slot]++
	c.gen = t.gens[c.slot]
	t.table[c.slot] = c
	c.hasSlot = true
}

func (t *slotTable) release(c *client) {
	if !c.hasSlot {
		return
	}
	c.hasSlot = false
	t.table[c.slot] = nil
	t.free = append(t.free, c.slot)
}

func (t *slotTable) get(slot uint16, gen uint8) *client {
	if int(slot) >= len(t.table) {
		return nil
	}
	if c := t.table[slot]; c != nil && c.gen == gen {
		return c
	}
	return nil
}
