package engine

import (
	"errors"
	"testing"
)

// TestFailFast: every host has to have failed for longer than a request would wait, and one of them lately.
func TestFailFast(t *testing.T) {
	a, b := &candidate{host: &host{}}, &candidate{host: &host{}}
	both := &backing{hosts: []*candidate{a, b}, candidate: a}
	f := func(step string, at int64, want bool) {
		t.Helper()
		if cause, fail := both.failFast(at*ms, 3000*ms, 4500*ms); fail != want || fail && cause == nil {
			t.Errorf("%s: %v, %v", step, fail, cause)
		}
	}
	f("at first", 1000, false)
	a.host.state.Failed(1000*ms, errors.New("a"))
	f("one of two", 5000, false)
	b.role.Failed(2000*ms, errors.New("b"))
	a.host.state.Failed(5000*ms, errors.New("a"))
	f("the second not for long enough", 5000, false)
	f("both", 5001, true)
	f("nothing is known of the time since", 9499, true)
	f("nothing is known of the time since", 9500, false)
	a.host.state.Succeeded(9600 * ms)
	f("one is back", 9601, false)
}
