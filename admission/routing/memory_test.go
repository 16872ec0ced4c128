//go:build !race

package routing

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"
)

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// TestMillionKeysMemory: a million application names and a million addresses, with routes that nobody uses and with
// routes that are all in use, take no more than the bound allows, and leave another tenant's routes alone.
func TestMillionKeysMemory(t *testing.T) {
	const most = 10_000
	table := NewTable(Options{Key: AllParts})
	for busy, keys := range map[bool]int{false: 2_000_000, true: 500_000} {
		before := heap()
		d := NewDirectory(fakeOptions(most))
		victim := d.Intern(2, named("victim"), Tenant{"db", "victim"})
		for i := range keys {
			k := Key{Database: "db", User: "flood", Application: table.Normalize(fmt.Sprintf("%063d", i))}
			if i%2 == 0 {
				k.Application, k.Addr = "same", netip.AddrFrom4([4]byte{10, byte(i >> 17), byte(i >> 9), byte(i >> 1)})
			}
			if f := d.Intern(1, table.Identify(&k), Tenant{k.Database, k.User}); busy {
				f.use()
			}
		}
		// Routes that come and go make the map grow once more than it would for those that stay.
		t.Logf("in use %v: %d KiB, %+v", busy, (heap()-before)>>10, d.Counts())
		if used := heap() - before; used > most*800 {
			t.Errorf("in use %v: %d bytes", busy, used)
		}
		if c := d.Counts(); c.Peak > most/2+2 || c.Overflows > 1 || victim.gone.Load() {
			t.Errorf("in use %v: %+v, victim gone %v", busy, c, victim.gone.Load())
		}
		runtime.KeepAlive(d)
	}
}

// TestBuffersMemory: a route does not keep the packet that its names came in.
func TestBuffersMemory(t *testing.T) {
	const routes, packet = 400, 64 << 10
	before := heap()
	d := NewDirectory(fakeOptions(routes))
	for i := range routes {
		s := fmt.Sprintf("db%4d user%4d app%4d", i, i, i) + strings.Repeat(" ", packet)
		id := Identity{Rule: -1, Key: Key{Database: s[:6], User: s[7:15], Application: s[16:23]}}
		d.Intern(i%7, id, Tenant{s[:6], s[7:15]}).use()
	}
	if kept := heap() - before; kept > routes*4096 {
		t.Errorf("%d bytes for each route", kept/routes)
	}
	runtime.KeepAlive(d)
}

func TestAllocations(t *testing.T) {
	f := func(what string, call func()) {
		t.Helper()
		if n := testing.AllocsPerRun(200, call); n != 0 {
			t.Errorf("%s: %v allocations", what, n)
		}
	}
	table, k := benchTable(), request("api-worker", "192.0.2.7", ClassRead)
	f("Identify", func() { table.Identify(&k) })
	name := strings.Repeat("x", 80)
	f("Normalize", func() { name = table.Normalize(name) })

	d, who := NewDirectory(fakeOptions(16)), Tenant{"db", "user"}
	for i := range 16 {
		d.Intern(1, named(fmt.Sprint(i)), who).use()
	}
	d.Intern(1, named("3"), who)
	f("Intern of a known route", func() { d.Intern(1, named("3"), who) })
	for i := range 40 {
		d.Intern(1, named(fmt.Sprint("more", i)), who)
	}
	f("Intern into a crowded overflow", func() { d.Intern(1, named("yet another"), who) })
}
