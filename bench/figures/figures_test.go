package figures

import "testing"

func TestMedian(t *testing.T) {
	if got := Median([]float64{3, 1, 2}); got != 2 {
		t.Errorf("of three: %v", got)
	}
	values := []float64{4, 1, 3, 2}
	if got := Median(values); got != 2.5 || values[0] != 4 {
		t.Errorf("of four: %v, and they are %v afterwards", got, values)
	}
}

func TestQuantile(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(i+1))
	}
	for _, c := range []struct{ q, want float64 }{{0, 1}, {0.5, 50}, {0.95, 95}, {0.99, 99}, {0.991, 100}, {1, 100}} {
		if got := Quantile(hundred, c.q); got != c.want {
			t.Errorf("%v of 1 to 100: %v, want %v", c.q, got, c.want)
		}
	}
	if Quantile(nil, 0.5) != 0 || Quantile([]float64{7}, 0.01) != 7 {
		t.Error("of nothing, or of one")
	}
}

func TestSpreadOverTheRoundsThatHaveTheFigure(t *testing.T) {
	s := series("x", CPU, 30, 10, 20)
	s.Rounds = append(s.Rounds, Round{Sample: Sample{TPS: 1}, Disturbed: true})
	if got, ok := s.Of(CPU); !ok || got != (Spread{20, 10, 30}) {
		t.Errorf("%+v, %v", got, ok)
	}
	if _, ok := s.Of(P99); ok {
		t.Error("a spread of nothing")
	}
	if s.Disturbed() != 1 {
		t.Errorf("%d disturbed rounds", s.Disturbed())
	}
}

func TestEveryFigureIsKnownOnce(t *testing.T) {
	seen := map[Figure]bool{}
	for _, info := range All() {
		if seen[info.Figure] || info.Label == "" {
			t.Errorf("%q is there twice, or has no label", info.Figure)
		}
		seen[info.Figure] = true
		if got, ok := info.Figure.Info(); !ok || got != info {
			t.Errorf("%q: %+v", info.Figure, got)
		}
	}
	if _, ok := Figure("no such").Info(); ok {
		t.Error("an unknown figure is known")
	}
}

func series(target string, f Figure, values ...float64) Series {
	s := Series{Target: target}
	for _, v := range values {
		s.Rounds = append(s.Rounds, Round{Sample: Sample{f: v}})
	}
	return s
}

// A ratio is that of medians, whichever rounds they come from.
func TestRatiosAreOfMedians(t *testing.T) {
	c := Criterion{Name: "n", Text: "t", Of: "ours", To: "theirs", Figure: CPU, Most: 0.9}
	for _, k := range []struct {
		ours, theirs []float64
		met          bool
	}{
		{[]float64{9, 8, 50}, []float64{10, 10, 1}, true}, // exactly 0.9
		{[]float64{9.1}, []float64{10}, false},
		{[]float64{1, 12, 12}, []float64{10, 10, 99}, false},
	} {
		v := c.Judge([]Series{series("theirs", CPU, k.theirs...), series("ours", CPU, k.ours...)})
		if !v.Judged || v.Met != k.met {
			t.Errorf("%v against %v: %+v", k.ours, k.theirs, v)
		}
	}
}

func TestJudge(t *testing.T) {
	both := func(target string, p50, p99 float64, more ...float64) Series {
		s := Series{Target: target, Rounds: []Round{{Sample: Sample{P50: p50, P99: p99}}}}
		for _, v := range more {
			s.Rounds = append(s.Rounds, Round{Sample: Sample{P50: p50, P99: v}})
		}
		return s
	}
	all := []Series{both("a", 2, 6), both("b", 1, 4), both("direct", 0.5, 1), both("wild", 0, 0, 0, 5), both("none", 0, 0)}
	for _, c := range []struct {
		name          string
		c             Criterion
		value         float64
		met, aim, not bool
	}{
		{"absolute", Criterion{Of: "a", Figure: P99, Most: 6, Aim: 5}, 6, true, false, false},
		{"at least", Criterion{Of: "a", Figure: P99, Least: 6, Aim: 6}, 6, true, true, false},
		{"too little", Criterion{Of: "a", Figure: P99, Least: 6.1}, 6, false, false, false},
		{"ratio", Criterion{Of: "a", To: "b", Figure: P99, Most: 1.4}, 1.5, false, false, false},
		{"own ratio", Criterion{Of: "a", Figure: P99, ToFigure: P50, Most: 3, Aim: 4}, 3, true, true, false},
		{"above a floor", Criterion{Of: "a", To: "b", Above: "direct", Figure: P50, Most: 3}, 3, true, false, false},
		{"median of a spread", Criterion{Of: "wild", Figure: P99, Most: 1}, 0, true, false, false},
		{"none in any round", Criterion{Of: "wild", Figure: P99, None: true}, 5, false, false, false},
		{"none", Criterion{Of: "none", Figure: P99, None: true}, 0, true, false, false},
		{"worst, at most", Criterion{Of: "wild", Figure: P99, Most: 4, Worst: true}, 5, false, false, false},
		{"worst, at least", Criterion{Of: "wild", Figure: P99, Least: 1, Worst: true}, 0, false, false, false},
		{"no target", Criterion{Of: "a", To: "c", Figure: P99, Most: 1}, 0, false, false, true},
		{"no figure", Criterion{Of: "a", Figure: CPU, Most: 1}, 0, false, false, true},
		{"ratio to nothing", Criterion{Of: "a", To: "none", Figure: P99, Most: 1}, 0, false, false, true},
	} {
		v := c.c.Judge(all)
		if v.Judged == c.not || v.Met != c.met || v.AimMet != c.aim || v.Judged && v.Value != c.value || (v.Why == "") != v.Judged {
			t.Errorf("%s: %+v", c.name, v)
		}
	}
}

func TestDisturbedRoundsAreSaid(t *testing.T) {
	quiet, loud := series("a", CPU, 1), series("b", CPU, 1)
	loud.Rounds[0].Disturbed = true
	c := Criterion{Of: "a", Figure: CPU, Most: 1}
	if v := c.Judge([]Series{quiet, loud}); v.Unquiet {
		t.Error("a round that does not matter disturbs")
	}
	c.To = "b"
	if v := c.Judge([]Series{quiet, loud}); !v.Unquiet || !v.Met {
		t.Errorf("%+v", v)
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct {
		c             Criterion
		relation, aim string
	}{
		{Criterion{Most: 1.1, Aim: 0.85}, "≤ 1.10", "≤ 0.85"},
		{Criterion{Least: 2000}, "≥ 2000", "–"},
		{Criterion{Least: 0.95, Aim: 0.98}, "≥ 0.95", "≥ 0.98"},
		{Criterion{None: true}, "none", "–"},
	} {
		if c.c.Relation() != c.relation || c.c.AimText() != c.aim {
			t.Errorf("%+v: %q, %q", c.c, c.c.Relation(), c.c.AimText())
		}
	}
	for _, c := range []struct {
		v    Verdict
		want string
	}{
		{Verdict{}, "not judged"},
		{Verdict{Judged: true}, "missed"},
		{Verdict{Judged: true, Met: true}, "met"},
		{Verdict{Judged: true, Met: true, AimMet: true}, "met, and the aim"},
	} {
		if got := c.v.Result(); got != c.want {
			t.Errorf("%+v: %q", c.v, got)
		}
	}
}

func TestCriteriaAreChecked(t *testing.T) {
	good := Criterion{Name: "n", Text: "t", Clients: 8, Of: "a", Figure: CPU, To: "b", Most: 1}
	if err := good.Check([]int{1, 8}, []string{"a", "b"}); err != nil {
		t.Error(err)
	}
	if err := good.Check([]int{8}, nil); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Criterion){
		"no name":            func(c *Criterion) { c.Name = "" },
		"no target":          func(c *Criterion) { c.Of = "" },
		"a foreign target":   func(c *Criterion) { c.To = "c" },
		"a foreign floor":    func(c *Criterion) { c.Above = "c" },
		"other clients":      func(c *Criterion) { c.Clients = 64 },
		"two limits":         func(c *Criterion) { c.Least = 1 },
		"no limit":           func(c *Criterion) { c.Most = 0 },
		"an unknown figure":  func(c *Criterion) { c.Figure = "speed" },
		"another one":        func(c *Criterion) { c.ToFigure = "speed" },
		"a tolerance of all": func(c *Criterion) { c.Tolerance = 1 },
	} {
		bad := good
		spoil(&bad)
		if bad.Check([]int{1, 8}, []string{"a", "b"}) == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
