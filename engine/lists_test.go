package engine

import "testing"

// TestClientListWhileItShrinks: a walk over as many clients as there were ends
// also when the walk itself removes all of them.
func TestClientListWhileItShrinks(t *testing.T) {
	var l clientList
	for range 5 {
		l.add(&client{})
	}
	seen := 0
	for range l.Len() {
		c := l.next()
		if c == nil {
			break
		}
		seen++
		l.remove(c)
		if other := l.next(); other != nil {
			l.remove(other)
		}
	}
	if l.Len() != 0 || seen != 3 || l.next() != nil {
		t.Errorf("%d left, %d seen", l.Len(), seen)
	}
}
