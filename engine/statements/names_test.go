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

func TestNamedInFindsACopysName(t *testing.T) {
	x, h := newTexts(t), NewHeld(100, 1<<20)
	var last *Copy
	for i := range uint64(12) {
		last = h.Parse(i+1, x.of("select 1"))
	}
	first := h.order.prev
	for _, c := range []*Copy{first, last} {
		name := string(c.AppendName(nil))
		for _, text := range []string{"prepared statement \"" + name + "\" does not exist", name, "«" + name + "»\x00"} {
			if got, st := h.NamedIn([]byte(text)); got != name || st != c.Statement() {
				t.Errorf("%q names %q, %v", text, got, st)
			}
		}
	}
	h.Stale(last)
	for _, sent := range []bool{false, true} { // it is still named while it is being closed
		if sent {
			h.CloseSent(13)
		}
		if _, st := h.NamedIn(last.AppendName(nil)); st != last.Statement() {
			t.Errorf("a copy that is being closed names %v", st)
		}
	}
	for n := range uint64(13) {
		h.Settle(executed(n+1), nil)
	}
	if _, st := h.NamedIn(last.AppendName(nil)); st != nil {
		t.Errorf("a copy that is closed names %v", st)
	}
	for _, text := range []string{
		"", "prepared statement \"pgk_5\" does not exist", prefix, prefix + "x", prefix + "13",
		prefix + "99999999999999999999999999", string(AppendName(nil, Missing)),
	} {
		if got, st := h.NamedIn([]byte(text)); st != nil {
			t.Errorf("%q names %q", text, got)
		}
	}
}

func TestNameOfIsTheOneGivenLast(t *testing.T) {
	x, c := newTexts(t), new(Catalog)
	st, other := x.of("select 'x'"), x.of("select 2")
	nameOf := func(s *Statement, want string) {
		t.Helper()
		if name, ok := c.NameOf(s); string(name) != want || ok != (want != "") {
			t.Errorf("%q, not %q", name, want)
		}
	}
	nameOf(st, "")
	c.Parse(1, []byte("a"), st)
	c.Parse(2, []byte("b"), st)
	c.Parse(3, nil, other)
	nameOf(st, "b")
	nameOf(other, "")
	c.Settle(executed(2))
	nameOf(st, "b")
	c.Close(4, []byte("b"))
	c.Settle(executed(4))
	nameOf(st, "a")
	nameOf(x.store.Under(environment("timezone", "UTC"), st), "a")
	nameOf(nil, "")
	c = nil
	nameOf(st, "")
}
