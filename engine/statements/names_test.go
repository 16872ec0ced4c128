package statements

import "testing"

func TestOutdatedDropsWhatTheFailedMessageUsed(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	before, failed, behind := h.Parse(1, x.of("select 1")), h.Parse(2, x.of("select 2")), h.Parse(3, x.of("select 3"))
	h.Settle(executed(3), nil)
	h.Use(before, 4)
	h.Use(failed, 5)
	h.Use(behind, 6)
	fresh := h.Parse(7, x.of("select 4"))
	if n := h.Outdated(5); n != 2 {
		t.Errorf("%d were dropped", n)
	}
	for _, c := range []*Copy{before, fresh} {
		if found, _ := h.Find(c.Statement()); found != c {
			t.Errorf("%q was dropped", c.Statement().Text())
		}
	}
	for _, c := range []*Copy{failed, behind} {
		if found, _ := h.Find(c.Statement()); found != nil {
			t.Errorf("%q is kept", c.Statement().Text())
		}
	}
	if ids := closes(h, 8); len(ids) != 2 {
		t.Errorf("%v are closed", ids)
	}
	if n := NewHeld(10, 10).Outdated(1); n != 0 {
		t.Errorf("%d were dropped of none", n)
	}
}

func TestNameInFindsACopysName(t *testing.T) {
	x, h := newTexts(t), NewHeld(100, 1<<20)
	for i := range uint64(12) {
		name := string(h.Parse(i+1, x.of("select 1")).AppendName(nil))
		for _, text := range []string{"prepared statement \"" + name + "\" does not exist", name, "«" + name + "»\x00"} {
			if got := NameIn([]byte(text)); got != name {
				t.Errorf("%q names %q", text, got)
			}
		}
	}
	for _, text := range []string{"", "prepared statement \"pgk_5\" does not exist", prefix[1:]} {
		if got := NameIn([]byte(text)); got != "" {
			t.Errorf("%q names %q", text, got)
		}
	}
}

// TestNameOfIsTheMessagesOwn: a client may have several names for one text.
func TestNameOfIsTheMessagesOwn(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	st := x.of("select 'x'")
	nameOf := func(number uint64, want string) {
		t.Helper()
		if name, ok := c.NameOf(number); string(name) != want || ok != (want != "") {
			t.Errorf("message %d: %q, not %q", number, name, want)
		}
	}
	for i, name := range []string{"a", "b"} {
		c.Parse(uint64(i+1), []byte(name), st)
	}
	for i, name := range []string{"a", "b", "a"} {
		c.Use(uint64(i+3), 2, c.Lookup([]byte(name)))
	}
	c.Settle(executed(5))
	for number, want := range []string{"", "", "", "a", "b", "a", ""} {
		nameOf(uint64(number), want)
	}
	c.Use(6, 5, c.Lookup([]byte("b"))) // what is answered is forgotten
	nameOf(3, "")
	nameOf(6, "b")
	c.Lost()
	nameOf(6, "")
	c = nil
	nameOf(6, "")
}

// TestOwnStatementsAreNotShared: what they describe depends on the session.
func TestOwnStatementsAreNotShared(t *testing.T) {
	x := newTexts(t)
	for text, own := range map[string]bool{
		"FETCH c": true, "fetch\nall in c": true, " ; -- one\n /* two /* three */ */ Fetch 2 FROM c": true, "EXECUTE p": true,
		"SELECT 1 FETCH FIRST ROW ONLY": false, "fetched": false, "MOVE c": false, "-- fetch\nSELECT 1": false, "SHOW work_mem": false,
	} {
		first, second := x.of(text), x.of(text)
		if first.Own() != own || (first != second) != own {
			t.Errorf("%q: own is %v", text, first.Own())
		}
		cache := NewCache(x.store)
		first, second = cache.Statement(Environment{}, first.Body()), cache.Statement(Environment{}, first.Body())
		if (first != second) != own {
			t.Errorf("%q in a cache", text)
		}
		if under := x.store.Under(environment("search_path", "s"), first); (under == first) != own {
			t.Errorf("%q in another environment", text)
		}
	}
	h := NewHeld(10, 1<<20)
	st := x.of("FETCH c")
	h.Parse(1, st)
	h.Settle(executed(1), nil)
	if n := len(h.Parsed()); n != 0 {
		t.Errorf("%d are told to others", n)
	}
	h.Drop(st)
	if c, _ := h.Find(st); c != nil || len(closes(h, 2)) != 1 {
		t.Error("a copy is not closed")
	}
}
