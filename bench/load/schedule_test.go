package load

import (
	"testing"
	"time"
)

func TestArrivals(t *testing.T) {
	o := Offer{Rate: 1000, After: time.Second, Span: 10 * time.Second}
	a, same, n, last := newArrivals(1, o), newArrivals(1, o), 0, int64(o.After)
	for ; a.due(); n++ {
		if a.next < last || a.next >= int64(11*time.Second) || a.next != same.next {
			t.Fatalf("arrival %d at %d after %d; again %d", n, a.next, last, same.next)
		}
		last = a.next
		a.pass()
		same.pass()
	}
	if n < 9500 || n > 10500 {
		t.Errorf("%d arrivals in 10 s at 1000/s", n)
	}
	if newArrivals(1, Offer{Span: time.Second}).due() {
		t.Error("an arrival at the rate 0")
	}
	b := newArrivals(2, o)
	if b.next == newArrivals(1, o).next {
		t.Error("two seeds give the same times")
	}
	if b.stop(); b.due() {
		t.Error("an arrival after the stop")
	}
}
