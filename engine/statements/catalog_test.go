package statements

import (
	"strings"
	"testing"
)

// PS-07: P("","DEALLOCATE ALL") B E P("n1",…) S, then B("","n1") E S.
func TestPS07NameParsedBehindDeallocateAllInItsPipeline(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	one, seven := x.of("select 1"), x.of("select 7")
	c.Parse(1, []byte("old"), one)
	c.Settle(executed(2))
	c.Parse(3, nil, x.of("DEALLOCATE ALL"))
	c.Clear(5)
	expect(t, c, "old", "", 5)
	expect(t, c, "", "DEALLOCATE ALL", 3)
	c.Parse(6, []byte("n1"), seven)
	expect(t, c, "n1", "select 7", 6)
	c.Settle(executed(7))
	expect(t, c, "n1", "select 7", 0)
	expect(t, c, "old", "", 0)
	expect(t, c, "", "DEALLOCATE ALL", 0)
}

func TestDeallocateAllThatFailsTakesNothing(t *testing.T) {
	for name, o := range map[string]outcomes{"failed": failedAt(5, 7), "removed": failedAt(4, 7)} {
		x, c := newTexts(t), new(Catalog)
		c.Parse(1, []byte("old"), x.of("select 1"))
		c.Settle(executed(2))
		c.Clear(5)
		c.Parse(6, []byte("new"), x.of("select 2"))
		c.Settle(o)
		expect(t, c, "old", "select 1", 0)
		expect(t, c, "new", "", 0)
		if c.Len() != 1 {
			t.Errorf("%s: %d names", name, c.Len())
		}
	}
}

// A Query of several statements: what its CommandCompletes have said is done,
// whatever becomes of the rest.
func TestQueryOfSeveralStatementsSettlesByStep(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	for i, name := range []string{"", "a", "b", "c"} {
		c.Parse(uint64(1+i), []byte(name), x.of("select 1"))
	}
	c.Settle(executed(5))
	c.Query(6)
	c.Close(6, []byte("unknown"))
	c.Close(6, []byte("a"))
	c.Close(6, []byte("b"))
	c.Clear(6)
	c.Close(7, []byte("c"))
	expect(t, c, "a", "", 6)
	c.Step(6)
	c.Step(6)
	c.Settle(failedAt(6, 6))
	expect(t, c, "", "", 0)
	expect(t, c, "a", "", 0)
	expect(t, c, "b", "select 1", 0)
	expect(t, c, "c", "", 7)
	c.Step(6)
	c.Lost()
	expect(t, c, "c", "select 1", 0)
}

func TestQueryDropsTheUnnamedStatementEvenIfItFails(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	c.Query(1)
	if c.InFlight() {
		t.Error("a Query without an unnamed statement is in flight")
	}
	c.Parse(2, nil, x.of("select 1"))
	c.Settle(executed(3))
	c.Query(4)
	expect(t, c, "", "", 4)
	c.Settle(failedAt(4, 4))
	expect(t, c, "", "", 0)
	c.Parse(5, nil, x.of("select 1"))
	c.Settle(executed(6))
	c.Query(8)
	c.Settle(failedAt(7, 9))
	expect(t, c, "", "select 1", 0)
}

// PS-12: a Parse that failed leaves no name behind.
func TestPS12FailedParseLeavesNoGhost(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	st := x.of("select * from missing")
	c.Parse(1, []byte("s"), st)
	expect(t, c, "s", "select * from missing", 1)
	c.Settle(failedAt(1, 2))
	expect(t, c, "s", "", 0)
	if c.Bytes() != 0 || c.InFlight() || len(c.names) != 0 {
		t.Errorf("%d bytes and %d names are left", c.Bytes(), len(c.names))
	}
	c.Parse(3, []byte("s"), st)
	c.Settle(executed(4))
	expect(t, c, "s", "select * from missing", 0)
}

func TestFailedUnnamedParseDropsTheOldOne(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	c.Parse(1, nil, x.of("select 1"))
	c.Settle(executed(2))
	c.Parse(4, nil, x.of("select 2"))
	c.Settle(failedAt(3, 5)) // skipped
	expect(t, c, "", "select 1", 0)
	c.Parse(6, nil, x.of("selec"))
	c.Settle(failedAt(6, 7))
	expect(t, c, "", "", 0)
	if c.Bytes() != 0 {
		t.Errorf("%d bytes", c.Bytes())
	}
}

// PS-15: Close of a name that never came to be.
func TestPS15CloseOfAnUnknownName(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	c.Parse(1, []byte("s"), x.of("bad"))
	c.Settle(failedAt(1, 2))
	c.Close(3, []byte("s"))
	expect(t, c, "s", "", 0)
	c.Settle(executed(4))
	c.Parse(5, []byte("s"), x.of("select 1"))
	c.Close(6, []byte("s"))
	expect(t, c, "s", "", 6)
	c.Settle(failedAt(6, 7))
	expect(t, c, "s", "select 1", 0)
	c.Close(8, []byte("s"))
	c.Close(9, nil)
	c.Settle(executed(10))
	expect(t, c, "s", "", 0)
	if c.Bytes() != 0 || c.InFlight() {
		t.Errorf("%d bytes are left", c.Bytes())
	}
}

func TestNamesAreBytesOfWhich63Count(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	long := strings.Repeat("é", 32) // 64 bytes
	for i, name := range []string{"a", "A", "a ", "\xff", long} {
		c.Parse(uint64(1+i), []byte(name), x.of("select '"+name+"'"))
	}
	c.Settle(executed(10))
	expect(t, c, "a", "select 'a'", 0)
	expect(t, c, "A", "select 'A'", 0)
	expect(t, c, "a ", "select 'a '", 0)
	expect(t, c, "\xff", "select '\xff'", 0)
	expect(t, c, long[:63], "select '"+long+"'", 0)
	expect(t, c, long+"more", "select '"+long+"'", 0)
	expect(t, c, long[:62], "", 0)
}

func TestNamesThatShareAHash(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	names := []string{"a", "b", "c", "d"}
	for i, text := range names {
		c.Parse(uint64(1+i), []byte(text), x.of("select '"+text+"'"))
	}
	c.Settle(executed(4))
	// One chain for all, as if their hashes were equal.
	var first *name
	for _, n := range c.names {
		n.chain, first = first, n
	}
	for hash := range c.names {
		c.names[hash] = first
	}
	for _, text := range names {
		expect(t, c, text, "select '"+text+"'", 0)
	}
	expect(t, c, "e", "", 0)
	c.names = map[uint64]*name{0: first}
	chain := []*name{first, first.chain, first.chain.chain, first.chain.chain.chain}
	for _, i := range []int{2, 0, 3, 1} { // from the middle, the front, the end
		chain[i].hash = 0
		c.commit(chain[i], nil)
		c.leave(chain[i])
		for n := c.names[0]; n != nil; n = n.chain {
			if n.committed == nil {
				t.Error("one that is gone is in the chain")
			}
		}
	}
	if len(c.names) != 0 || c.Bytes() != 0 || c.Len() != 0 {
		t.Errorf("%d chains, %d bytes and %d names are left", len(c.names), c.Bytes(), c.Len())
	}
}

func TestCatalogIsBoundedByBytes(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	const limit = 64 << 10
	n := uint64(0)
	for ; ; n++ {
		st := x.of("select " + strings.Repeat("1", int(n)))
		if !c.Fits(st, limit) {
			break
		}
		c.Parse(n+1, []byte{byte(n), byte(n >> 8), 1}, st)
	}
	if n < 64 || c.Bytes() > limit || c.Bytes() < limit*9/10 {
		t.Errorf("%d statements of %d bytes fit into %d", n, c.Bytes(), limit)
	}
	c.Settle(executed(n))
	if c.Len() != int(n) || c.Bytes() > limit {
		t.Errorf("%d names of %d bytes, not %d", c.Len(), c.Bytes(), n)
	}
	var none *Catalog
	if !none.Fits(x.of("select 1"), limit) || none.Fits(x.of("select 1"), 10) {
		t.Error("a client without statements is bounded otherwise")
	}
}

// A client that sends large unnamed statements without waiting keeps few of them.
func TestUnnamedStatementsInFlightAreBounded(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	large := func(i int) string { return "select '" + strings.Repeat(string(rune('a'+i)), 300<<10) + "'" }
	for i := range 20 {
		c.Parse(uint64(1+i), nil, x.of(large(i)))
		if c.Bytes() > maxReplaced+301<<10 {
			t.Fatalf("%d bytes in flight", c.Bytes())
		}
	}
	expect(t, c, "", large(19), 20)
	// An error takes the newest away: the one before was forgotten or is right.
	c.Settle(executed(2))
	expect(t, c, "", large(19), 20)
	if c.Bytes() == 0 {
		t.Error("nothing is in flight")
	}
	c.Settle(executed(20))
	expect(t, c, "", large(19), 0)
	c.Close(21, nil)
	c.Settle(executed(21))
	if c.Bytes() != 0 || c.replaced != 0 {
		t.Errorf("%d and %d bytes are left", c.Bytes(), c.replaced)
	}
}

// The newest unnamed Parse may be settled while a Close of it is in flight.
func TestLargeUnnamedStatementForgetsNoOther(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	c.Parse(1, nil, x.of("select 0"))
	c.Settle(executed(1))
	c.Close(2, nil)
	for i, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		c.Parse(uint64(3+i), []byte(name), x.of("select 1"))
	}
	large := "select " + strings.Repeat("1", maxReplaced)
	c.Parse(10, nil, x.of(large))
	for c.InFlight() {
		c.Settle(executed(c.ops.front().number))
	}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		expect(t, c, name, "select 1", 0)
	}
	expect(t, c, "", large, 0)
	c = new(Catalog)
	c.Parse(1, nil, x.of(large))
	expect(t, c, "", large, 1)
}

// Whatever the order in which names come and go, Clear takes all that are left.
func TestClearBehindNamesThatWentInAnyOrder(t *testing.T) {
	x := newTexts(t)
	st := x.of("select 1")
	names := [][]byte{[]byte("a"), []byte("b"), []byte("c"), []byte("d")}
	for order := range 4 * 4 * 4 * 8 {
		c := new(Catalog)
		number := uint64(0)
		next := func() uint64 { number++; return number }
		for _, n := range names {
			c.Parse(next(), n, st)
		}
		c.Settle(executed(number))
		for i, n := range []int{order % 4, order / 4 % 4, order / 16 % 4} {
			c.Close(next(), names[n])
			if order>>6&(1<<i) != 0 { // and comes back at once
				c.Parse(next(), names[n], st)
			}
			if order%3 == 0 {
				c.Settle(executed(number))
			}
		}
		c.Clear(next())
		c.Settle(executed(number))
		if c.Len() != 0 || c.Bytes() != 0 || len(c.names) != 0 || c.committed != nil {
			t.Fatalf("order %d: %d names and %d bytes are left", order, c.Len(), c.Bytes())
		}
	}
}

func TestClientThatNeverPreparedHasNoCatalog(t *testing.T) {
	var c *Catalog
	c.Query(1)
	c.Close(2, []byte("a"))
	c.Clear(3)
	c.Step(3)
	c.Settle(executed(4))
	c.Lost()
	expect(t, c, "a", "", 0)
	expect(t, c, "", "", 0)
	if c.Len() != 0 || c.Bytes() != 0 || c.InFlight() {
		t.Error("it has something")
	}
}
