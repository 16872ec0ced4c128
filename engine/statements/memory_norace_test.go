//go:build !race

package statements

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"
)

func noAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestKnownStatementsDoNotAllocate(t *testing.T) {
	s := NewStore()
	c := NewCache(s)
	e := environment("timezone", "UTC")
	body := parseBody("select 'x', $1", 23)
	st := c.Statement(e, body)
	other := c.Under(Environment{}, st)
	noAllocations(t, "the cache", func() { c.Statement(e, body) })
	noAllocations(t, "the store", func() { s.Intern(e, body) })
	noAllocations(t, "another environment", func() { c.Under(Environment{}, st) })
	runtime.KeepAlive(other)
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	x := newTexts(t)
	a, b := x.of("select $1"), x.of("select $1, $2")
	c, h := new(Catalog), NewHeld(10, 1<<20)
	number := uint64(0)
	names := [][]byte{[]byte("one"), []byte("another")}
	for i, st := range []*Statement{a, b} {
		number++
		c.Parse(number, names[i], st)
		h.Parse(number, st)
	}
	o := new(outcomes)
	settle := func() {
		o.done = number
		c.Settle(o)
		h.Settle(o, nil)
	}
	settle()
	noAllocations(t, "Bind of a named statement", func() {
		number++
		f := c.Lookup(names[number%2])
		copied, _ := h.Find(f.Statement)
		h.Use(copied, number)
		settle()
	})
	noAllocations(t, "Parse and Bind of the unnamed statement", func() {
		number++
		c.Parse(number, nil, a)
		h.ParseUnnamed(number, a)
		number++
		if s, _ := h.Unnamed(); c.Lookup(nil).Statement != s {
			t.Fatal("the unnamed statement is another")
		}
		settle()
	})
	noAllocations(t, "Parse and Close of a name", func() {
		number++
		c.Parse(number, []byte("third"), a)
		number++
		c.Close(number, []byte("third"))
		settle()
	})
	noAllocations(t, "Query", func() {
		number++
		c.Query(number)
		h.Query(number)
		settle()
	})
}

// heap is what is in use once everything dead was collected.
func heap() int {
	for range 3 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// PS-28: 100 000 times a new name, a new text and DISCARD ALL, in one client.
func TestPS28MemoryFlat(t *testing.T) {
	s := NewStore()
	cache := NewCache(s)
	c, h := new(Catalog), NewHeld(500, 4<<20)
	number := uint64(0)
	loop := func(n int) {
		for i := range n {
			number++
			name := binary.BigEndian.AppendUint64(nil, number)
			st := cache.Statement(Environment{}, parseBody(fmt.Sprint("select ", number)))
			c.Parse(number, name, st)
			h.Parse(number, st)
			if i%3 > 0 {
				number++
				c.Clear(number)
				h.Clear(number)
			}
			if i%5 == 0 {
				c.Settle(executed(number))
				h.Settle(executed(number), nil)
			}
		}
		number++
		c.Clear(number)
		h.Clear(number)
		c.Settle(executed(number))
		h.Settle(executed(number), nil)
	}
	loop(5_000)
	before := heap()
	loop(100_000)
	if grown := heap() - before; grown > 64<<10 {
		t.Errorf("%d bytes are left", grown)
	}
	if c.Bytes() != 0 || c.Len() != 0 || h.Len() != 0 {
		t.Errorf("%d bytes, %d names and %d copies are left", c.Bytes(), c.Len(), h.Len())
	}
	runtime.KeepAlive(s)
}

// A client that has had many names and operations in flight gives their memory
// back when it has none.
func TestMemoryOfManyNames(t *testing.T) {
	st := newTexts(t).of("select 1")
	c := new(Catalog)
	before := heap()
	for i := range uint64(50_000) {
		c.Parse(i+1, binary.BigEndian.AppendUint64(nil, i), st)
	}
	c.Settle(executed(50_000))
	full := heap()
	c.Clear(50_001)
	c.Settle(executed(50_001))
	if left := heap() - before; left > 16<<10 || full-before < 1<<20 {
		t.Errorf("%d bytes of %d are left", left, full-before)
	}
	runtime.KeepAlive(c)
}

// PS-14: 100 000 texts, of which nobody needs more than the last ones.
func TestPS14MemoryOfManyTexts(t *testing.T) {
	s := NewStore()
	cache := NewCache(s)
	c, h := new(Catalog), NewHeld(500, 4<<20)
	number := uint64(0)
	loop := func(n int) {
		for range n {
			number++
			st := cache.Statement(Environment{}, parseBody(fmt.Sprint("select ", number)))
			c.Parse(number, nil, st)
			h.Parse(number, st)
			c.Settle(executed(number))
			h.Settle(executed(number), nil)
			if _, ok := h.NextClose(); ok {
				h.CloseSent(number)
			}
		}
	}
	loop(5_000)
	before := heap()
	loop(100_000)
	// The table of the store may have grown between two collections.
	if grown := heap() - before; grown > 1<<20 {
		t.Errorf("%d bytes are left", grown)
	}
	runtime.KeepAlive(s)
}

// What a client and a server connection cost that prepare nothing, or one thing.
func TestMemoryOfOneClient(t *testing.T) {
	st := newTexts(t).of("select 1")
	const n = 10_000
	before := heap()
	clients := make([]*Catalog, n)
	for i := range clients {
		clients[i] = new(Catalog)
		clients[i].Parse(1, nil, st)
		clients[i].Settle(executed(1))
	}
	each := (heap() - before) / n
	t.Logf("%d bytes a client that uses the unnamed statement", each)
	if each > 700 {
		t.Errorf("%d bytes a client", each)
	}
	runtime.KeepAlive(clients)
}

func BenchmarkCache(b *testing.B) {
	c := NewCache(NewStore())
	body := parseBody("select abalance from pgbench_accounts where aid = $1", 23)
	c.Statement(Environment{}, body)
	b.ReportAllocs()
	for b.Loop() {
		c.Statement(Environment{}, body)
	}
}

// BenchmarkBind is what a Bind of a named statement costs, settled.
func BenchmarkBind(b *testing.B) {
	st := NewStore().Intern(Environment{}, parseBody("select $1"))
	c, h := new(Catalog), NewHeld(500, 1<<20)
	c.Parse(1, []byte("S_1"), st)
	h.Parse(1, st)
	number := uint64(1)
	name := []byte("S_1")
	o := &outcomes{}
	b.ReportAllocs()
	for b.Loop() {
		number++
		f := c.Lookup(name)
		copied, _ := h.Find(f.Statement)
		h.Use(copied, number)
		o.done = number
		c.Settle(o)
		h.Settle(o, nil)
	}
}

// BenchmarkUnnamed is what a Parse and a Bind of the unnamed statement cost.
func BenchmarkUnnamed(b *testing.B) {
	cache := NewCache(NewStore())
	body := parseBody("select abalance from pgbench_accounts where aid = $1", 23)
	c, h := new(Catalog), NewHeld(500, 1<<20)
	number := uint64(0)
	o := &outcomes{}
	b.ReportAllocs()
	for b.Loop() {
		st := cache.Statement(Environment{}, body)
		number++
		c.Parse(number, nil, st)
		h.ParseUnnamed(number, st)
		c.Lookup(nil)
		h.Unnamed()
		o.done = number
		c.Settle(o)
		h.Settle(o, nil)
	}
}
