package figures

import (
	"errors"
	"fmt"
	"slices"
)

// Criterion is what a figure must be, as data: a scenario's file holds its criteria. Its value is made of medians:
//
//	(Of's Figure − Above's) ÷ (To's ToFigure − Above's)
//
// where To, ToFigure and Above may be left out.
type Criterion struct {
	Name     string  `yaml:"name" json:"name"` // unique over all scenarios
	Text     string  `yaml:"text" json:"text"`
	Clients  int     `yaml:"clients" json:"-"` // the case of the scenario that it judges
	Of       string  `yaml:"of" json:"-"`      // target
	Figure   Figure  `yaml:"figure" json:"-"`
	To       string  `yaml:"to" json:"-"`        // target to whose figure the value is the ratio; "" with ToFigure: Of's own
	ToFigure Figure  `yaml:"to_figure" json:"-"` // "" = Figure
	Above    string  `yaml:"above" json:"-"`     // target whose figure is taken off both
	Most     float64 `yaml:"most" json:"most,omitempty"`
	Least    float64 `yaml:"least" json:"least,omitempty"`
	None     bool    `yaml:"none" json:"none,omitempty"`   // the value must be 0 in each round
	Worst    bool    `yaml:"worst" json:"worst,omitempty"` // the worst round counts, not the median
	Aim      float64 `yaml:"aim" json:"aim,omitempty"`     // the same relation; 0 = none
	// Tolerance makes the criterion a part of the regression gate: the part by which the value may be worse than the baseline's.
	Tolerance float64 `yaml:"gate" json:"-"`
}

// Verdict is a judged criterion.
type Verdict struct {
	Criterion
	Value   float64 `json:"value"`
	Judged  bool    `json:"judged"`            // false: a target or figure is missing, see Why
	Met     bool    `json:"met"`               // the limit
	AimMet  bool    `json:"aim_met"`           // the aim
	Why     string  `json:"why,omitempty"`     // why it is not judged
	Unquiet bool    `json:"unquiet,omitempty"` // some of the rounds behind it were disturbed
}

// Check tells what is wrong with a criterion of a scenario that has these client counts and targets; targets empty means any.
func (c *Criterion) Check(clients []int, targets []string) error {
	has := func(name string) bool { return name == "" || len(targets) == 0 || slices.Contains(targets, name) }
	known := func(f Figure) bool { _, ok := f.Info(); return ok }
	limits := 0
	for _, set := range []bool{c.Most != 0, c.Least != 0, c.None} {
		if set {
			limits++
		}
	}
	switch {
	case c.Name == "" || c.Text == "" || c.Of == "":
		return errors.New("a criterion needs name, text and of")
	case !known(c.Figure) || c.ToFigure != "" && !known(c.ToFigure):
		return fmt.Errorf("%s: unknown figure %q or %q", c.Name, c.Figure, c.ToFigure)
	case limits != 1:
		return fmt.Errorf("%s: exactly one of most, least and none", c.Name)
	case !has(c.Of) || !has(c.To) || !has(c.Above):
		return fmt.Errorf("%s: a target that the scenario does not have", c.Name)
	case !slices.Contains(clients, c.Clients):
		return fmt.Errorf("%s: the scenario has no case with %d clients", c.Name, c.Clients)
	case c.Tolerance < 0 || c.Tolerance >= 1:
		return fmt.Errorf("%s: a tolerance is a part of 1", c.Name)
	}
	return nil
}

// Judge gives the verdict over the series of its case.
func (c Criterion) Judge(series []Series) Verdict {
	v := Verdict{Criterion: c}
	ratio := c.To != "" || c.ToFigure != ""
	to, toFigure := c.To, c.ToFigure
	if to == "" {
		to = c.Of
	}
	if toFigure == "" {
		toFigure = c.Figure
	}
	value, err := v.above(series, c.Of, c.Figure)
	if err == nil && ratio {
		var base float64
		if base, err = v.above(series, to, toFigure); err == nil && base <= 0 {
			err = fmt.Errorf("%s of %s is %g, no ratio can be made with it", toFigure, to, base)
		}
		value /= base
	}
	if err != nil {
		v.Why = err.Error()
		return v
	}
	v.Value, v.Judged = value, true
	if c.Least != 0 {
		v.Met, v.AimMet = value >= c.Least, c.Aim != 0 && value >= c.Aim
	} else {
		v.Met, v.AimMet = value <= c.Most, c.Aim != 0 && value <= c.Aim
	}
	return v
}

// above is the median of a target's figure, less that of the target Above.
func (v *Verdict) above(series []Series, target string, f Figure) (float64, error) {
	value, err := v.median(series, target, f)
	if err != nil || v.Above == "" {
		return value, err
	}
	floor, err := v.median(series, v.Above, f)
	return value - floor, err
}

func (v *Verdict) median(series []Series, target string, f Figure) (float64, error) {
	for i := range series {
		if series[i].Target != target {
			continue
		}
		spread, ok := series[i].Of(f)
		if !ok {
			return 0, fmt.Errorf("%s has no %s", target, f)
		}
		v.Unquiet = v.Unquiet || series[i].Disturbed() > 0
		switch {
		case v.None || v.Worst && v.Least == 0:
			return spread.High, nil
		case v.Worst:
			return spread.Low, nil
		}
		return spread.Median, nil
	}
	return 0, fmt.Errorf("%s was not measured", target)
}

// Relation is the limit in words: "≤ 1.00".
func (c *Criterion) Relation() string {
	switch {
	case c.None:
		return "none"
	case c.Least != 0:
		return fmt.Sprintf("≥ %s", number(c.Least))
	}
	return fmt.Sprintf("≤ %s", number(c.Most))
}

// Result is "met", "missed", or "not judged".
func (v *Verdict) Result() string {
	switch {
	case !v.Judged:
		return "not judged"
	case v.Met && v.AimMet:
		return "met, and the aim"
	case v.Met:
		return "met"
	}
	return "missed"
}

// Number is the value as reports show it.
func (v *Verdict) Number() string { return number(v.Value) }

// AimText is the aim in words, "–" without one.
func (c *Criterion) AimText() string {
	switch {
	case c.Aim == 0:
		return "–"
	case c.Least != 0:
		return "≥ " + number(c.Aim)
	}
	return "≤ " + number(c.Aim)
}

func number(v float64) string {
	if v >= 100 || v <= -100 || v == 0 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
