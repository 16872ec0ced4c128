package admission

import "sync/atomic"

// peak is the highest value that a number ever had. Who raises the number notes its new value before its call returns,
// so between calls it is exact. Read by any goroutine; costs its writers one load unless the peak rises.
type peak struct{ v atomic.Int64 }

func (k *peak) note(n int) {
	for {
		old := k.v.Load()
		if int64(n) <= old || k.v.CompareAndSwap(old, int64(n)) {
			return
		}
	}
}

func (k *peak) load() int { return int(k.v.Load()) }
