//go:build !sim

package admission

import "sync"

// yield marks a point at which another loop may come between. Outside the simulator it is nothing and costs nothing.
func yield() {}

// mutex is a pool's or a budget's critical section. It is held for a bounded number of list operations, never across
// a Driver call.
type mutex struct{ sync.Mutex }
