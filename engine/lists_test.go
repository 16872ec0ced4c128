package engine

import (
	"testing"

	"pgkinetic/configs"
)

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

// TestPausedForgetsTheGone: clients that come and go while memory is short are not kept until there is room again.
func TestPausedForgetsTheGone(t *testing.T) {
	e := &Engine{}
	e.settings.Store(newSettings(1, &configs.Config{}, nil, nil, nil)) // max_buffer_memory 0: always short
	w := &worker{eng: e}
	alive := &client{w: w, up: &userPool{}}
	for range 3 {
		w.memoryFull(&client{w: w, up: &userPool{}, state: clientGone})
	}
	w.memoryFull(alive)
	w.checkMemory()
	if len(w.paused) != 1 || w.paused[0] != alive {
		t.Errorf("%d are kept", len(w.paused))
	}
}
