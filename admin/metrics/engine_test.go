package metrics

import (
	"log/slog"
	"maps"
	"slices"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine"
)

// The values of labels that the table lists are those that the pooler counts by.
func TestValuesOfLabels(t *testing.T) {
	cfg, _, problems := configs.Load("", nil, []string{"--server.listen=127.0.0.1:0", "--server.loops=1", "--auth.method=trust"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	e, err := engine.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.Start()
	defer func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	}()
	families := exposition(t, e.Metrics())
	compared := 0
	for _, m := range Table {
		counted := map[string]bool{}
		for _, s := range families[m.Name].GetMetric() {
			for _, l := range s.Label {
				if l.GetName() == m.Labels[len(m.Labels)-1] {
					counted[l.GetValue()] = true
				}
			}
		}
		listed := valuesOf(m)
		if len(counted) == 0 || listed == nil { // there is no route and no pool yet
			continue
		}
		slices.Sort(listed)
		if got := slices.Sorted(maps.Keys(counted)); !slices.Equal(got, listed) {
			t.Errorf("%s: the table lists %v, the pooler counts %v", m.Name, listed, got)
		}
		compared++
	}
	if compared < 8 {
		t.Errorf("only %d metrics have been compared", compared)
	}
}
