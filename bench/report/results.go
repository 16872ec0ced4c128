// Package report turns measured cases into JSON, Markdown and charts, rewrites the results in a page, and compares a run with a
// committed baseline. It measures nothing.
package report

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"pgkinetic/bench/figures"
)

// Results are the cases that were measured last, each with what it was measured on.
type Results struct {
	Cases []Case `json:"cases"`
}

// Case is one measured case.
type Case struct {
	Name     string            `json:"name"`
	Order    int               `json:"order"` // of the scenario, then of the case in it
	About    string            `json:"about"`
	Clients  int               `json:"clients"`
	Backends int               `json:"backends"`
	Rounds   int               `json:"rounds"`
	Seconds  float64           `json:"seconds"` // of a round, where the load has that length
	Measured time.Time         `json:"measured"`
	Machine  Machine           `json:"machine"`
	Baseline string            `json:"baseline"`      // the target that ratios are made with
	Own      bool              `json:"own,omitempty"` // the targets are those of this scenario alone
	Series   []figures.Series  `json:"series"`
	Skipped  []Skip            `json:"skipped,omitempty"`
	Verdicts []figures.Verdict `json:"verdicts,omitempty"`
}

// Skip is a target that was left out.
type Skip struct {
	Target string `json:"target"`
	Why    string `json:"why"`
}

// resultsFile is the name of the file in the directory of the output.
const resultsFile = "results.json"

// Read reads the results of a directory; none where there are none yet.
func Read(dir string) (r Results, err error) {
	text, err := os.ReadFile(filepath.Join(dir, resultsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(text, &r)
}

// Put enters a case, in the place of an older one of its name.
func (r *Results) Put(c Case) {
	r.Cases = slices.DeleteFunc(r.Cases, func(old Case) bool { return old.Name == c.Name })
	r.Cases = append(r.Cases, c)
	slices.SortStableFunc(r.Cases, func(a, b Case) int { return a.Order - b.Order })
}

// Write writes results.json, results.md and the charts into a directory.
func (r *Results) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return err
	}
	files := map[string]string{resultsFile: string(text) + "\n", "results.md": r.Markdown()}
	for _, chart := range r.Charts() {
		files[chart.Name+".svg"] = chart.SVG()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Targets are the names of all targets, in the order in which they first appear.
func (r *Results) Targets() (names []string) {
	for i := range r.Cases {
		for _, s := range r.Cases[i].Series {
			if !slices.Contains(names, s.Target) {
				names = append(names, s.Target)
			}
		}
	}
	return names
}

// Verdicts are those of all cases.
func (r *Results) Verdicts() (all []figures.Verdict) {
	for _, c := range r.Cases {
		all = append(all, c.Verdicts...)
	}
	return all
}

// of is the series of a target, nil without one.
func (c *Case) of(target string) *figures.Series {
	i := slices.IndexFunc(c.Series, func(s figures.Series) bool { return s.Target == target })
	if i < 0 {
		return nil
	}
	return &c.Series[i]
}

// value is the median of a target's figure.
func (c *Case) value(target string, f figures.Figure) (figures.Spread, bool) {
	if s := c.of(target); s != nil {
		return s.Of(f)
	}
	return figures.Spread{}, false
}

// figures are those that some target of the case has, in the order of tables.
func (c *Case) figures() (infos []figures.Info) {
	for _, info := range figures.All() {
		if slices.ContainsFunc(c.Series, func(s figures.Series) bool { _, ok := s.Of(info.Figure); return ok }) {
			infos = append(infos, info)
		}
	}
	return infos
}
