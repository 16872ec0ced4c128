package engine

import (
	"log/slog"
	"testing"

	"pgkinetic/configs"
)

// TestListsAreAskedForInSlices: a turn of a loop gives a bounded number of items, and the next turn comes when those are
// taken.
func TestListsAreAskedForInSlices(t *testing.T) {
	cfg, _, problems := configs.Load("", nil, []string{"--server.listen=127.0.0.1:0", "--server.loops=1", "--auth.method=trust"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.Start()
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}()
	items := make([]int, 10*rowsPerTurn+3)
	asked, shown := 0, 0
	list := func(*worker) []int { return items }
	for range askAll(e, list, func(int) (fact int, ok bool) { asked++; return 0, true }) {
		shown++
		if most := (shown + rowsPerTurn - 1) / rowsPerTurn * rowsPerTurn; asked > most {
			t.Fatalf("%d items were asked for when %d had been taken", asked, shown)
		}
	}
	if shown != len(items) {
		t.Errorf("%d of %d items", shown, len(items))
	}
}
