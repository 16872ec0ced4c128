// Package scenarios says what is measured: each is a YAML file of this directory with a load, the numbers of clients, and the
// criteria by which its figures are judged. It runs nothing.
package scenarios

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/targets"
)

//go:embed *.yaml
var files embed.FS

// Scenario is one file.
type Scenario struct {
	Name  string `yaml:"-"` // of the file, without its end
	Order int    `yaml:"order"`
	About string `yaml:"about"` // a sentence
	// Clients are the cases: one for each number.
	Clients []int `yaml:"clients"`
	// Kind names the load: "pgbench", or one of those that package trials knows.
	Kind string `yaml:"kind"`
	// Pgbench is the load of that kind.
	Pgbench Pgbench `yaml:"pgbench"`
	// Params are numbers for the other kinds, which say what each means.
	Params map[string]float64 `yaml:"params"`
	// Query is the text that the other kinds send.
	Query string `yaml:"query"`
	// Prepare is SQL that is run once for each target before, by PostgreSQL itself. It must not mind being repeated.
	Prepare string `yaml:"prepare"`
	// Targets are started for this scenario alone; empty means those of the whole run.
	Targets []targets.Choice `yaml:"targets"`
	// Only names those of the whole run that take part; empty means all.
	Only []string `yaml:"only"`
	// Rounds is the most that make sense; 0 = as many as are asked for.
	Rounds   int                 `yaml:"rounds"`
	Criteria []figures.Criterion `yaml:"criteria"`
}

// Pgbench is what pgbench runs.
type Pgbench struct {
	Builtin  string `yaml:"builtin"`
	Script   string `yaml:"script"`
	Protocol string `yaml:"protocol"`
	Connect  bool   `yaml:"connect"`
}

// Case is a scenario with one number of clients.
type Case struct {
	*Scenario
	Clients int
}

// Name is the scenario's, with the number of clients where there are several.
func (c Case) Name() string {
	if len(c.Scenario.Clients) == 1 {
		return c.Scenario.Name
	}
	return fmt.Sprintf("%s/%d", c.Scenario.Name, c.Clients)
}

// Criteria are those that judge this case.
func (c Case) Criteria() []figures.Criterion {
	return slices.DeleteFunc(slices.Clone(c.Scenario.Criteria), func(k figures.Criterion) bool { return k.Clients != c.Clients })
}

// Param is a number of the scenario's. A kind's check has seen to it that it is there.
func (c Case) Param(name string) float64 { return c.Params[name] }

// Count is a whole number of the scenario's.
func (c Case) Count(name string) int { return int(c.Params[name]) }

// Span is a number of seconds of the scenario's.
func (c Case) Span(name string) time.Duration {
	return time.Duration(c.Params[name] * float64(time.Second))
}

// All are the scenarios, in their order.
func All() ([]*Scenario, error) { return read(files) }

func read(from fs.FS) (all []*Scenario, err error) {
	paths, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return nil, err
	}
	criteria := map[string]bool{}
	for _, p := range paths {
		text, err := fs.ReadFile(from, p)
		if err != nil {
			return nil, err
		}
		s := &Scenario{Name: strings.TrimSuffix(path.Base(p), ".yaml")}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(s); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if err := s.check(criteria); err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *Scenario) int { return a.Order - b.Order })
	return all, nil
}

func (s *Scenario) check(names map[string]bool) error {
	if s.About == "" || s.Kind == "" || len(s.Clients) == 0 {
		return errors.New("a scenario needs about, kind and clients")
	}
	p := s.Pgbench
	if s.Kind == "pgbench" && ((p.Builtin == "") == (p.Script == "") || !slices.Contains(protocols, p.Protocol)) {
		return fmt.Errorf("pgbench needs one of builtin and script, and a protocol of %v", protocols)
	}
	own := []string(nil)
	for i, t := range s.Targets {
		if t.Name == "" || t.Of == "" {
			return fmt.Errorf("target %d needs name and of", i+1)
		}
		if err := t.Check(); err != nil {
			return fmt.Errorf("target %s: %w", t.Name, err)
		}
		own = append(own, t.Name)
	}
	for _, c := range s.Criteria {
		if err := c.Check(s.Clients, own); err != nil {
			return err
		}
		if names[c.Name] {
			return fmt.Errorf("there are two criteria %q", c.Name)
		}
		names[c.Name] = true
	}
	return nil
}

var protocols = []string{"simple", "extended", "prepared"}

// Cases are those that the selection names: scenarios, or cases as Case.Name writes them; an empty one names all. A name that
// is neither is an error.
func Cases(all []*Scenario, selection []string) (cases []Case, err error) {
	used := map[string]bool{}
	for _, s := range all {
		for _, n := range s.Clients {
			c := Case{s, n}
			full := fmt.Sprintf("%s/%d", s.Name, n)
			for _, name := range []string{s.Name, full} {
				if slices.Contains(selection, name) {
					used[name] = true
				}
			}
			if len(selection) == 0 || used[s.Name] || used[full] {
				cases = append(cases, c)
			}
		}
	}
	for _, name := range selection {
		if !used[name] {
			return nil, fmt.Errorf("there is no scenario or case %q", name)
		}
	}
	return cases, nil
}

// Gated tells whether the case has a criterion of the regression gate.
func (c Case) Gated() bool {
	return slices.ContainsFunc(c.Criteria(), func(k figures.Criterion) bool { return k.Tolerance > 0 })
}
