package admission

// SetWeight changes r's share of the pool, from 1 to MaxWeight. It wakes nobody: who is eligible stays so. Any
// goroutine.
func (r *Route) SetWeight(n int) {
	must(n >= 1 && n <= MaxWeight, "weight out of range")
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	r.weight = int32(n)
	r.credit = min(r.credit, r.weight)
}
