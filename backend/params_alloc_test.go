//go:build !race

package backend

import "testing"

// Switching a backend between clients makes it report values it had before.
func TestParamsSetAllocatesNothing(t *testing.T) {
	p := record("application_name", "a", "TimeZone", "UTC")
	name, a, b := []byte("application_name"), []byte("client a"), []byte("client bb")
	p.Set(name, b)
	if n := testing.AllocsPerRun(100, func() {
		p.Set(name, a)
		p.Set(name, b)
		p.Rebase(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
