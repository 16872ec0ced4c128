//go:build !race

package sqllex

import "testing"

func TestScanDoesNotAllocate(t *testing.T) {
	sql := []byte(`SELECT "a", 'x\', $1, $t$ b $t$ FROM pg_temp.t WHERE set_config('a', 'b', true) = ' -- '`)
	var s Scanner
	if n := testing.AllocsPerRun(100, func() {
		s.Reset()
		s.Feed(sql[:20])
		if s.Class() != ClassRead {
			t.Fatal("not a read")
		}
		s.Feed(sql[20:])
		if s.End().Flags != Scan(sql).Flags {
			t.Fatal("the cut text differs")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
