//go:build !race

package engine_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// heap is what is live after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // the first one may have found finalizers
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestFloodOfNamesMemory: however many names clients give themselves, at login or by SET, the memory of the process has a
// bound, which max_routes sets.
func TestFloodOfNamesMemory(t *testing.T) {
	const clients, names = 8, 600 // of each client
	e, address := startYAML(t, databases(pgtest.Shared(t)), "--admission.max-routes=200", "--server.loops=2")
	flood := func(round string) {
		var all sync.WaitGroup
		for i := range clients {
			all.Go(func() {
				c, err := pgwire.Open("tcp", address)
				if err == nil {
					_, err = c.Login(0, "user", "postgres", "database", "postgres")
				}
				for n := 0; n < names && err == nil; n++ {
					_, err = c.Exec(fmt.Sprintf("set application_name = '%s-%d-%d-%s'", round, i, n, strings.Repeat("x", 40)))
					if err == nil {
						_, err = c.Exec("select 1")
					}
					if err == nil && n%10 == 0 { // and by login
						c.Reset()
						if c, err = pgwire.Open("tcp", address); err == nil {
							_, err = c.Login(0, "user", "postgres", "database", "postgres", "application_name", fmt.Sprintf("%s-login-%d-%d", round, i, n))
						}
					}
				}
				if err != nil {
					t.Errorf("client %d: %v", i, err)
				}
				c.Reset()
			})
		}
		all.Wait()
		until(t, "all clients gone", func() bool { return e.Totals().Clients == 0 })
	}
	flood("first") // everything that is allocated once, is
	before := heap()
	flood("second")
	grown := int64(heap()) - int64(before)
	routes, overflows := e.RouteCounts()
	t.Logf("%d names more: the heap has grown by %d KiB; %d routes, %d overflow routes, %d labels", clients*names, grown>>10, routes, overflows, len(e.Tallies()))
	// 4800 names of about 60 bytes, each with a route of half a kilobyte or more, would be more than 2 MiB.
	if grown > 1<<20 {
		t.Errorf("the heap has grown by %d KiB", grown>>10)
	}
	if routes > 200 {
		t.Errorf("%d routes, allowed are 200", routes)
	}
	if n := len(e.Tallies()); n > 201 {
		t.Errorf("%d labels, allowed are 200 and the rest", n)
	}
}
