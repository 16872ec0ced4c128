//go:build !race

package guide

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// visitor is a client that the caller closes, so that the test itself holds nothing of it.
func visitor(t *testing.T, address, application string) *pgwire.Conn {
	t.Helper()
	c, err := pgwire.Open("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Login(0, "user", "postgres", "database", "postgres", "application_name", application); err != nil {
		t.Fatal(err)
	}
	return c
}

// heap is the bytes of live objects.
func heap() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first one moved out of the pools
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestWaiterMemory: what a waiter costs beyond the idle client that it was is at most what the guide says, and not much
// less.
func TestWaiterMemory(t *testing.T) {
	for size, documented := range map[int]float64{100: waiterBytes, 4000: largeWaiterBytes} {
		query := pgwire.Query("select 1 /* " + strings.Repeat("x", size) + " */")
		each := waiterMemory(t, query)
		t.Logf("a request of %d bytes: %.0f bytes for each waiter", len(query), each)
		if each > documented || each < 0.8*documented {
			t.Errorf("a waiter costs %.0f bytes, the guide says %.0f", each, documented)
		}
	}
}

// waiterMemory measures with an engine of its own: one keeps what its waiters have used.
func waiterMemory(t *testing.T, query []byte) float64 {
	t.Helper()
	const n = 3000
	_, address := startInside(t, "--capacity.pool-max-size=1", fmt.Sprintf("--capacity.max-route-waiters=%d", n),
		"--capacity.checkout-timeout-ms=600000", "--admission.route-key=database,user")
	busy := visitor(t, address, "")
	defer busy.Close()
	must(t, busy, "begin")
	var all []*pgwire.Conn
	for range n + 1 {
		c := visitor(t, address, "")
		defer c.Close()
		all = append(all, c)
	}
	before := heap()
	for _, c := range all[:n] {
		if err := c.Send(query); err != nil {
			t.Fatal(err)
		}
	}
	awaitFull(t, all[n])
	return float64(heap()-before) / n
}

// awaitFull returns when c finds the queue full: all who were to wait do. Meanwhile c would wait in somebody's place, and
// cancels that.
func awaitFull(t *testing.T, c *pgwire.Conn) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if err := c.Send(pgwire.Query("select 1")); err != nil {
			t.Fatal(err)
		}
		if c.Silent(100 * time.Millisecond) {
			if err := pgwire.Cancel("tcp", c.Net.RemoteAddr().String(), c.PID, c.Key); err != nil {
				t.Fatal(err)
			}
		}
		answer, err := c.ReadUntil('Z', 1)
		if err != nil {
			t.Fatal(err)
		}
		if pgwire.ErrorOf(answer[0]).Code() == "53300" {
			return
		}
	}
	t.Fatal("the queue does not fill")
}

// TestRouteMemory: what a route costs is at most what the guide says, and not much less.
func TestRouteMemory(t *testing.T) {
	const n = 5000
	_, address := startInside(t, "--admission.max-routes=100000")
	name := 0
	use := func(routes int) {
		for range routes {
			name++
			c := visitor(t, address, fmt.Sprintf("application-%09d", name))
			must(t, c, "select 1")
			c.Close()
		}
	}
	use(500) // the labels are full from here on
	before := heap()
	use(n)
	each := float64(heap()-before) / n
	t.Logf("%.0f bytes for each route", each)
	if each > routeBytes || each < routeBytes/2 {
		t.Errorf("a route costs %.0f bytes, the guide says %.0f", each, routeBytes)
	}
}
