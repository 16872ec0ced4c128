package report

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"pgkinetic/bench/figures"
)

// Baseline holds the values of the gate's criteria as they were when they were taken for good. They are ratios of figures of one
// run: times of two machines, or of two days, cannot be compared.
type Baseline struct {
	Measured time.Time          `json:"measured"`
	Machine  Machine            `json:"machine"`
	Values   map[string]float64 `json:"values"`
}

// Take takes the values of a run in the place of older ones. A criterion of the gate that was not judged is an error.
func (b *Baseline) Take(verdicts []figures.Verdict, machine Machine, now time.Time) error {
	b.Measured, b.Machine = now.UTC().Truncate(time.Second), machine
	if b.Values == nil {
		b.Values = map[string]float64{}
	}
	for _, v := range verdicts {
		if v.Tolerance == 0 {
			continue
		}
		if !v.Judged {
			return fmt.Errorf("%s: %s", v.Name, v.Why)
		}
		b.Values[v.Name] = math.Round(v.Value*1000) / 1000
	}
	return nil
}

// ReadBaseline reads one from a file.
func ReadBaseline(path string) (b Baseline, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return b, err
	}
	return b, json.Unmarshal(text, &b)
}

// Write writes it into a file.
func (b *Baseline) Write(path string) error {
	text, err := json.MarshalIndent(b, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Compare gives a line for each figure of the gate that is worse than the baseline by more than its tolerance, that has no value
// there, or that could not be judged.
func (b *Baseline) Compare(verdicts []figures.Verdict) (regressions []string) {
	for _, v := range verdicts {
		if v.Tolerance == 0 {
			continue
		}
		base, ok := b.Values[v.Name]
		switch {
		case !v.Judged:
			regressions = append(regressions, fmt.Sprintf("%s (%s): not judged: %s", v.Name, v.Text, v.Why))
		case !ok:
			regressions = append(regressions, fmt.Sprintf("%s (%s): the baseline has no value", v.Name, v.Text))
		case v.Least != 0 && v.Value < base*(1-v.Tolerance), v.Least == 0 && v.Value > base*(1+v.Tolerance):
			regressions = append(regressions, fmt.Sprintf("%s (%s): %.3f, baseline %.3f, tolerance %.0f %%", v.Name, v.Text, v.Value,
				base, v.Tolerance*100))
		}
	}
	return regressions
}
