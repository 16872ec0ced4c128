package engine

import "testing"

// TestAddressesOfAName: where a name has several addresses and one does not answer, the next is tried, and a further
// look-up goes on with the one that answers.
func TestAddressesOfAName(t *testing.T) {
	var h host
	r := h.learn([]string{"[::1]:5432", "127.0.0.1:5432"}, 1)
	want := func(step, address string) {
		t.Helper()
		if got := h.address.Load().address(); got != address {
			t.Errorf("%s: %s, want %s", step, got, address)
		}
	}
	want("at first", "[::1]:5432")
	r.failed("[::1]:5432")
	r.failed("[::1]:5432") // another connect, which had begun before
	want("after a failure", "127.0.0.1:5432")
	h.learn([]string{"[::1]:5432", "127.0.0.1:5432"}, 2)
	want("after a further look-up", "127.0.0.1:5432")
	h.address.Load().failed("127.0.0.1:5432")
	want("after all have failed", "[::1]:5432")
	h.learn([]string{"10.0.0.1:5432"}, 3)
	want("another address", "10.0.0.1:5432")
}
