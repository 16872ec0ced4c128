package routing

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

// TestDirectoryFromManyGoroutines: clients that use, lose and replace routes while others sweep, resize, drop and read.
// What is counted on routes is never lost and never counted twice, whoever dies when.
func TestDirectoryFromManyGoroutines(t *testing.T) {
	const clients, rounds, pools = 6, 4000, 3
	counters, folded := sync.Map{}, 0 // folded: guarded by the directory's mutex
	counter := func(f *fake) *atomic.Int64 {
		c, _ := counters.LoadOrStore(f, &atomic.Int64{})
		return c.(*atomic.Int64)
	}
	o := fakeOptions(64)
	plain := o.Gone
	o.Gone = func(f *fake) { plain(f); folded += int(counter(f).Load()) }
	d := NewDirectory(o)

	var working, reading sync.WaitGroup
	done := make(chan struct{})
	for c := range clients {
		working.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(c), 2))
			who := Tenant{"db", fmt.Sprint(c % 4)}
			for range rounds {
				pool, id := rng.IntN(pools), named(fmt.Sprint(rng.IntN(40)))
				f := d.Intern(pool, id, who)
				for !f.use() {
					f = d.Replace(pool, id, who, f)
				}
				if f.pool != pool || !f.overflow && f.id != id {
					t.Errorf("%+v in pool %d for %+v in pool %d", f.id, f.pool, id, pool)
				}
				counter(f).Add(1)
				f.leave()
				switch rng.IntN(40) {
				case 0:
					d.Sweep(50)
				case 1:
					d.SetMax(16 + rng.IntN(64))
				case 2:
					d.DropPool(pool)
				}
			}
		})
	}
	total := func() (n int) {
		d.EachAfter(func() { n = folded }, func(_ int, _ Identity, f *fake) { n += int(counter(f).Load()) })
		return n
	}
	reading.Go(func() {
		for last := 0; ; {
			select {
			case <-done:
				return
			default:
			}
			n := total()
			if n < last {
				t.Errorf("the total fell from %d to %d", last, n)
			}
			last = n
			if c := d.Counts(); c.Made-c.Forgotten != uint64(c.Routes+c.Overflows) || c.Overflows > pools {
				t.Errorf("%+v", c)
			}
		}
	})
	working.Wait()
	close(done)
	reading.Wait()
	if n := total(); n != clients*rounds {
		t.Errorf("%d uses counted, want %d", n, clients*rounds)
	}
	for pool := range pools {
		if !d.DropPool(pool) {
			t.Errorf("pool %d is not empty", pool)
		}
	}
	if c := d.Counts(); c.Routes+c.Overflows != 0 || folded != clients*rounds {
		t.Errorf("%+v, counted %d", c, folded)
	}
	if err := d.check(); err != nil {
		t.Error(err)
	}
}
