package statements

import (
	"fmt"
	"strings"
	"testing"
)

// closes sends a Close for all that is to be closed and returns the ids.
func closes(h *Held, number uint64) (ids []uint64) {
	for {
		id, ok := h.NextClose()
		if !ok {
			return ids
		}
		h.CloseSent(number)
		ids = append(ids, id)
	}
}

// PS-10: what was never sent is not there, and what an error removed neither.
func TestPS10CopyOfAParseThatWasNotExecuted(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	q := x.of("select 1")
	c := h.Parse(2, q)
	if found, since := h.Find(q); found != c || since != 2 {
		t.Errorf("in flight it is %v since %d", found, since)
	}
	h.Settle(failedAt(1, 2), []byte("22012"))
	if found, since := h.Find(q); found != nil || since != 0 {
		t.Errorf("a Parse that was skipped has left %v since %d", found, since)
	}
	h.Parse(3, q)
	h.Settle(failedAt(3, 4), []byte("42601"))
	if found, _ := h.Find(q); found != nil || h.Len() != 0 || h.Bytes() != 0 {
		t.Error("a Parse that failed has left a copy")
	}
	again := h.Parse(5, q)
	h.Settle(executed(5), nil)
	if found, since := h.Find(q); found != again || since != 0 || again.Since() != 0 || again.Statement() != q {
		t.Errorf("the copy is %v since %d", found, since)
	}
	if a, b := string(c.AppendName(nil)), string(again.AppendName(nil)); a == b || !strings.HasPrefix(a, "pgk_") || len(a) > maxName {
		t.Errorf("names %q and %q", a, b)
	}
}

// PS-11: more statements in one group than are to be kept.
func TestPS11GroupLargerThanTheLimit(t *testing.T) {
	x, h := newTexts(t), NewHeld(1, 1<<20)
	var copies []*Copy
	for i := range 600 {
		copies = append(copies, h.Parse(uint64(1+i), x.of(fmt.Sprint("select ", i))))
		if ids := closes(h, uint64(1+i)); ids != nil {
			t.Fatalf("%v is closed while the group needs it", ids)
		}
	}
	h.Settle(executed(600), nil)
	for i, c := range copies[:300] {
		h.Use(c, uint64(601+i))
	}
	ids := closes(h, 1000)
	if len(ids) != 300 || h.Len() != 300 {
		t.Fatalf("%d are closed and %d kept while 300 are needed", len(ids), h.Len())
	}
	for i, id := range ids {
		if id != copies[300+i].id {
			t.Fatalf("the %dth to be closed is %d", i, id)
		}
	}
	h.Settle(executed(1000), nil)
	if ids := closes(h, 1001); len(ids) != 299 || h.Len() != 1 {
		t.Errorf("%d are closed and %d kept", len(ids), h.Len())
	}
	if found, _ := h.Find(copies[299].statement); found != copies[299] {
		t.Error("the one used last is not kept")
	}
}

func TestEvictionByBytesAndByNewLimits(t *testing.T) {
	x, h := newTexts(t), NewHeld(100, 10000)
	for i := range 5 {
		h.Parse(uint64(1+i), x.of("select "+strings.Repeat(fmt.Sprint(i), 3000)))
	}
	h.Settle(executed(5), nil)
	if ids := closes(h, 6); len(ids) != 2 || h.Bytes() > 10000 {
		t.Errorf("%v are closed and %d bytes kept", ids, h.Bytes())
	}
	h.SetLimits(1, 10000)
	if ids := closes(h, 7); len(ids) != 2 || h.Len() != 1 {
		t.Errorf("%v are closed, and %d kept, below the new limit", ids, h.Len())
	}
	h.SetLimits(0, 0)
	if ids := closes(h, 8); len(ids) != 1 || h.Len() != 0 {
		t.Errorf("%v are closed, and %d kept, of a limit of nothing", ids, h.Len())
	}
}

func TestCloseThatAnErrorRemovedIsSentAgain(t *testing.T) {
	x, h := newTexts(t), NewHeld(0, 0)
	c := h.Parse(1, x.of("select 1"))
	h.Settle(executed(1), nil)
	id, ok := h.NextClose()
	if again, _ := h.NextClose(); !ok || id != c.id || again != id {
		t.Fatalf("%d and %d are to be closed, not %d", id, again, c.id)
	}
	h.CloseSent(3)
	if _, ok := h.NextClose(); ok {
		t.Error("it is closed twice")
	}
	h.Settle(failedAt(2, 3), []byte("22012"))
	if again, ok := h.NextClose(); !ok || again != id {
		t.Error("it is not closed again")
	}
	h.CloseSent(4)
	h.Settle(executed(4), nil)
	if _, ok := h.NextClose(); ok {
		t.Error("it is closed once more")
	}
}

// After 0A000 or 26000 the next use has a copy under another name.
func TestStaleCopyIsClosedAndParsedAnew(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	q := x.of("select * from t")
	c := h.Parse(1, q)
	h.Settle(executed(1), nil)
	h.Use(c, 2)
	h.Stale(c)
	h.Stale(c)
	h.Use(c, 3)
	if found, since := h.Find(q); found != nil || since != 0 || h.Len() != 0 {
		t.Errorf("it is still found: %v since %d", found, since)
	}
	fresh := h.Parse(4, q)
	if ids := closes(h, 5); len(ids) != 1 || ids[0] != c.id || fresh.id == c.id {
		t.Errorf("%v are closed, and the new one is %d", ids, fresh.id)
	}
	inFlight := h.Parse(6, x.of("select 2"))
	h.Stale(inFlight)
	h.Settle(failedAt(6, 6), []byte("42601"))
	if h.Len() != 1 {
		t.Errorf("%d copies", h.Len())
	}
}

func TestDeallocateOfACopy(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	q := x.of("select 1")
	c := h.Parse(1, q)
	h.Settle(executed(1), nil)
	h.Deallocate(2, c)
	if found, _ := h.Find(q); found != nil {
		t.Error("it is found behind its DEALLOCATE")
	}
	h.Settle(failedAt(2, 2), []byte("25P02"))
	if ids := closes(h, 3); len(ids) != 1 || ids[0] != c.id {
		t.Errorf("%v are closed: a DEALLOCATE that failed has left it", ids)
	}
	h.Settle(executed(3), nil)
	stale := h.Parse(4, q)
	h.Stale(stale)
	h.Deallocate(5, stale)
	h.Settle(executed(5), nil)
	if h.Len() != 0 || h.Bytes() != 0 {
		t.Error("something is left")
	}
}

// DEALLOCATE ALL and DISCARD ALL: in order, and undone where they did not happen.
func TestClear(t *testing.T) {
	clear := func(o outcomes, code string) (*Held, *Copy, *Copy) {
		x, h := newTexts(t), NewHeld(10, 1<<20)
		q, other := x.of("select 1"), x.of("select 2")
		old := h.Parse(1, q)
		stale := h.Parse(2, other)
		h.Settle(executed(2), nil)
		h.Stale(stale)
		h.Clear(4)
		if found, since := h.Find(q); found != nil || since != 4 {
			t.Errorf("behind the Clear it is %v since %d", found, since)
		}
		fresh := h.Parse(5, q)
		if found, since := h.Find(q); found != fresh || since != 5 {
			t.Errorf("parsed behind the Clear it is %v since %d", found, since)
		}
		h.Settle(o, []byte(code))
		found, since := h.Find(q)
		if since != 0 {
			t.Errorf("a settled one rests on %d", since)
		}
		if c, since := h.Find(other); c != nil || since != 0 {
			t.Errorf("an unknown one is %v since %d", c, since)
		}
		if found != nil && found != old && found != fresh {
			t.Errorf("it is %v", found)
		}
		if found == old {
			return h, found, nil
		}
		return h, nil, found
	}
	h, old, fresh := clear(executed(5), "")
	if old != nil || fresh == nil || h.Len() != 1 || h.Leaked() || closes(h, 6) != nil {
		t.Error("a Clear has left more than what came behind it")
	}
	for name, o := range map[string]outcomes{"removed": failedAt(3, 5), "refused": failedAt(4, 5)} {
		h, old, fresh = clear(o, "25001")
		if old == nil || fresh != nil || h.Len() != 1 || h.Leaked() {
			t.Errorf("a Clear that was %s has taken copies", name)
		}
		if ids := closes(h, 6); len(ids) != 1 || ids[0] != 2 {
			t.Errorf("%v are closed behind a Clear that was %s", ids, name)
		}
	}
	h, old, fresh = clear(failedAt(4, 5), "57014")
	if old != nil || fresh != nil || h.Len() != 0 || !h.Leaked() {
		t.Error("a Clear that failed in the middle has left something certain")
	}
	h.CloseSent(6)
	h.Clear(8)
	h.Settle(failedAt(5, 7), []byte("22012"))
	if !h.Leaked() {
		t.Error("a Clear in flight mends it")
	}
	h.Settle(executed(8), nil)
	if h.Leaked() || closes(h, 9) != nil {
		t.Error("a Clear of ours does not mend it")
	}
}

// Closes that were in flight, or to be sent, when everything went.
func TestCloseOfWhatAClearHasTaken(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	c, d := h.Parse(1, x.of("select 1")), h.Parse(2, x.of("select 2"))
	h.Settle(executed(2), nil)
	h.Stale(c)
	h.Clear(3)
	h.NextClose()
	h.CloseSent(5) // behind the Clear, and removed by the failure of 4
	h.Settle(executed(3), nil)
	h.Settle(failedAt(4, 5), []byte("22012"))
	if ids := closes(h, 6); ids != nil {
		t.Errorf("%v are closed, which are gone", ids)
	}
	h.Stale(d)
	if ids := closes(h, 7); ids != nil {
		t.Errorf("%v are closed, which are gone", ids)
	}
}

func TestSecondClearInFlightKeepsTheFirstOnesCopiesHidden(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	q := x.of("select 1")
	c := h.Parse(1, q)
	h.Settle(executed(1), nil)
	h.Clear(3)
	h.Clear(6)
	h.Settle(failedAt(2, 4), []byte("22012"))
	if found, since := h.Find(q); found != nil || since != 6 {
		t.Errorf("it is %v since %d", found, since)
	}
	h.Settle(failedAt(5, 7), []byte("22012"))
	if found, since := h.Find(q); found != c || since != 0 {
		t.Errorf("it is %v since %d", found, since)
	}
}

func TestQueryClearsByStep(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	h.ParseUnnamed(1, x.of("select 2"))
	h.Parse(2, x.of("select 1"))
	h.Settle(executed(3), nil)
	h.Query(4)
	h.Clear(4)
	h.Clear(4)
	h.Parse(5, x.of("select 3"))
	h.Step(4)
	if c, since := h.Find(x.of("select 1")); c != nil || since != 4 {
		t.Errorf("%v since %d: the second statement has not been executed yet", c, since)
	}
	h.Step(4)
	h.Settle(failedAt(4, 4), []byte("22012"))
	if h.Len() != 1 || h.Leaked() {
		t.Errorf("%d copies, leaked %v", h.Len(), h.Leaked())
	}
	h.Step(4)
	if c, since := h.Find(x.of("select 3")); c == nil || since != 5 {
		t.Errorf("%v since %d", c, since)
	}
}

// Several copies of one statement: the newest is found, each can go.
func TestCopiesOfOneStatement(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {1, 0, 2}, {1, 2, 0}, {2, 1, 0}, {2, 0, 1}, {0, 2, 1}} {
		x, h := newTexts(t), NewHeld(10, 1<<20)
		q := x.of("select 1")
		var copies []*Copy
		for i := range 3 {
			copies = append(copies, h.Parse(uint64(1+i), q))
		}
		h.Settle(executed(3), nil)
		left := map[*Copy]bool{copies[0]: true, copies[1]: true, copies[2]: true}
		for _, i := range order {
			h.Stale(copies[i])
			delete(left, copies[i])
			found, _ := h.Find(q)
			if len(left) > 0 && !left[found] || len(left) == 0 && found != nil || h.Len() != len(left) {
				t.Errorf("%v: of %d left, %v is found", order, len(left), found)
			}
			for _, c := range copies[i+1:] {
				if left[c] && found.id < c.id {
					t.Errorf("%v: %d is found, not the newest", order, found.id)
				}
			}
		}
	}
}

func TestUnnamedStatementOfAServer(t *testing.T) {
	x, h := newTexts(t), NewHeld(10, 1<<20)
	a, b := x.of("select 1"), x.of("select 2")
	unnamed := func(want *Statement, since uint64) {
		t.Helper()
		if s, n := h.Unnamed(); s != want || n != since {
			t.Errorf("it is %v since %d, not %v since %d", s, n, want, since)
		}
	}
	unnamed(nil, 0)
	h.Query(1)
	h.ParseUnnamed(2, a)
	unnamed(a, 2)
	h.Settle(executed(3), nil)
	unnamed(a, 0)
	h.ParseUnnamed(5, b)
	h.Settle(failedAt(4, 6), []byte("22012")) // skipped
	unnamed(a, 0)
	h.ParseUnnamed(7, b)
	h.Settle(failedAt(7, 8), []byte("42601"))
	unnamed(nil, 0)
	h.ParseUnnamed(9, a)
	h.ParseUnnamed(10, b)
	h.Settle(executed(9), nil)
	unnamed(b, 10)
	h.Settle(failedAt(0, 10), nil) // the first is no longer known
	unnamed(nil, 0)
	h.ParseUnnamed(11, a)
	h.Query(12)
	unnamed(nil, 12)
	h.Settle(executed(12), nil)
	unnamed(nil, 0)
	h.ParseUnnamed(13, a)
	h.CloseUnnamed(14)
	unnamed(nil, 14)
	h.Settle(failedAt(14, 14), []byte("57014"))
	unnamed(nil, 0)
}
