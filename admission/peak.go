package admission

import "sync/atomic"

// peak is the highest value that a number ever had. Who raises the number notes its new value before its call returns,
// so between calls it is exact. Read by any goroutine; costs its writers one load unless the peak rises.
type peak struct{ v atomic.Int64 }

// note is inlined; raise is not.
func (k *peak) note(n int) {
	if int64(n) > k.v.Load() {
		k.raise(int64(n))
	}
}

func (k *peak) raise(n int64) {
	for old := k.v.Load(); n > old && !k.v.CompareAndSwap(old, n); {
		old = k.v.Load()
	}
}

func (k *peak) load() int { return int(k.v.Load()) }
