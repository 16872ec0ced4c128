package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/report"
	"pgkinetic/bench/scenarios"
	"pgkinetic/bench/targets"
)

// scripted is a trial whose rounds are disturbed, or fail, as it is told; it enters its name in the order of all rounds.
type scripted struct {
	name      string
	order     *[]string
	disturbed []bool
	fails     bool
	closed    int
}

func (s *scripted) Round(context.Context, int) (figures.Round, error) {
	*s.order = append(*s.order, s.name)
	if s.fails {
		return figures.Round{}, errors.New("no more\nof this")
	}
	r := figures.Round{Sample: figures.Sample{figures.TPS: float64(len(*s.order))}}
	if len(s.disturbed) > 0 {
		r.Disturbed, s.disturbed = s.disturbed[0], s.disturbed[1:]
	}
	return r, nil
}

func (s *scripted) Close() error {
	s.closed++
	return nil
}

func raced(patient bool, rounds int, all ...*scripted) (order []string, left []*contender, k report.Case, r *run) {
	r = &run{options: options{patient: patient, errors: io.Discard}, progress: &progress{}}
	var contenders []*contender
	for _, s := range all {
		s.order = &order
		contenders = append(contenders, &contender{
			target: &targets.Target{Choice: targets.Choice{Name: s.name}}, trial: s, series: figures.Series{Target: s.name},
		})
	}
	left = r.race(context.Background(), "case", contenders, rounds, &k)
	return order, left, k, r
}

func TestRoundsAlternate(t *testing.T) {
	order, left, _, _ := raced(true, 3, &scripted{name: "a"}, &scripted{name: "b"})
	if !slices.Equal(order, []string{"a", "b", "b", "a", "a", "b"}) || len(left) != 2 {
		t.Errorf("%v, %d are left", order, len(left))
	}
}

func TestDisturbedRoundsAreRepeatedAndCounted(t *testing.T) {
	noisy := func() *scripted { return &scripted{name: "a", disturbed: []bool{true, false, true, true, true}} }
	order, left, _, _ := raced(true, 2, noisy())
	s := left[0].series
	// Of two rounds, two may be repeated: the first once, the second once; then it counts as it is.
	if len(order) != 4 || s.Repeated != 2 || len(s.Rounds) != 2 || s.Rounds[0].Disturbed || !s.Rounds[1].Disturbed {
		t.Errorf("%d runs, %+v", len(order), s)
	}
	if order, left, _, _ = raced(false, 2, noisy()); len(order) != 2 || left[0].series.Repeated != 0 {
		t.Errorf("without patience: %d runs, %+v", len(order), left[0].series)
	}
}

func TestATargetThatFailsIsLeftOut(t *testing.T) {
	bad := &scripted{name: "bad", fails: true}
	order, left, k, r := raced(true, 2, bad, &scripted{name: "good"})
	if !slices.Equal(order, []string{"bad", "good", "good"}) || len(left) != 1 || left[0].series.Target != "good" {
		t.Errorf("%v, %d are left", order, len(left))
	}
	if bad.closed != 1 || r.failures != 1 || len(k.Skipped) != 1 || k.Skipped[0] != (report.Skip{Target: "bad", Why: "no more"}) {
		t.Errorf("closed %d times, %d failures, %+v", bad.closed, r.failures, k.Skipped)
	}
}

func TestFlagsOfARunDoNotChangeWhatAScenarioCompares(t *testing.T) {
	r := &run{
		options:  options{kineticArgs: []string{"--a=1"}, program: "no-such-binary", errors: io.Discard},
		progress: &progress{}, fleet: &targets.Fleet{Definitions: []targets.Definition{
			{Name: kinetic, Programs: []string{"x"}}, {Name: "other", Programs: []string{"no-such-binary"}},
		}},
	}
	choices := []targets.Choice{{Name: "mine", Of: kinetic, Args: []string{"--a=2"}}}
	started, left := r.start(choices)
	if len(started) != 0 || len(left) != 1 || left[0].Target != "mine" || r.failures != 1 {
		t.Errorf("%v, %+v, %d failures", started, left, r.failures)
	}
	if _, left := r.start([]targets.Choice{{Name: "other", Of: "other"}}); len(left) != 1 || r.failures != 1 {
		t.Errorf("a pooler that is not installed: %+v, %d failures", left, r.failures)
	}
	if got := r.choice(choices[0]); !slices.Equal(got.Args, []string{"--a=1", "--a=2"}) || got.Binary != "no-such-binary" {
		t.Errorf("%+v", got)
	}
	if got := r.choice(targets.Choice{Name: "p", Of: "pgbouncer"}); len(got.Args) != 0 || got.Binary != "" {
		t.Errorf("%+v", got)
	}
}

func TestNumberOfRounds(t *testing.T) {
	o := &options{rounds: 5, choices: make([]targets.Choice, 3)}
	one := scenarios.Case{Scenario: &scenarios.Scenario{}}
	own := scenarios.Case{Scenario: &scenarios.Scenario{Targets: make([]targets.Choice, 2), Rounds: 1}}
	only := scenarios.Case{Scenario: &scenarios.Scenario{Only: []string{"a"}}}
	if n := rounds([]scenarios.Case{one, own, only}, o); n != 15+2+5 {
		t.Errorf("%d rounds", n)
	}
}
