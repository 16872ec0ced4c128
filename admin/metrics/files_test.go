package metrics

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash("../../" + path))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// report tells the problems of a query.
func (j *judge) report(t *testing.T, of string) {
	t.Helper()
	for _, p := range j.problems {
		t.Errorf("%s: %s", of, p)
	}
}

type alert struct {
	Alert, Expr, For string
	Labels           struct{ Severity string }
	Annotations      struct {
		Summary, Description string
		RunbookURL           string `yaml:"runbook_url"`
	}
}

func alerts(t *testing.T) (all []alert) {
	t.Helper()
	var doc struct {
		Groups []struct {
			Name  string
			Rules []alert
		}
	}
	d := yaml.NewDecoder(bytes.NewReader(file(t, "configs/prometheus-alerts.yml")))
	d.KnownFields(true)
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	for _, g := range doc.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Alert rules can be read, name what there is, and lead to a runbook.
func TestAlerts(t *testing.T) {
	all := series(t)
	seen := map[string]bool{}
	for _, a := range alerts(t) {
		j := newJudge(all)
		labels := j.query(a.Expr)
		for _, m := range regexp.MustCompile(`\$labels\.(\w+)`).FindAllStringSubmatch(a.Annotations.Summary+a.Annotations.Description, -1) {
			if !slices.Contains(labels, m[1]) {
				j.problem("the text names %s, which is no label of %v", m[1], labels)
			}
		}
		j.report(t, a.Alert)
		if seen[a.Alert] || !strings.HasPrefix(a.Alert, "PgKinetic") {
			t.Errorf("%s is no name, or there twice", a.Alert)
		}
		seen[a.Alert] = true
		if _, err := time.ParseDuration(a.For); a.For != "" && err != nil {
			t.Errorf("%s: %v", a.Alert, err)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, a.Labels.Severity) || a.Annotations.Summary == "" || a.Annotations.Description == "" {
			t.Errorf("%s: %+v", a.Alert, a)
		}
		if want := "docs/operations.md#" + strings.ToLower(a.Alert); a.Annotations.RunbookURL != want {
			t.Errorf("%s: runbook_url is %s instead of %s", a.Alert, a.Annotations.RunbookURL, want)
		}
	}
	if len(seen) < 20 {
		t.Errorf("%d alerts", len(seen))
	}
}

// Every alert has a runbook, and every runbook an alert.
func TestRunbooks(t *testing.T) {
	var headings, names []string
	for _, m := range regexp.MustCompile(`(?m)^### (PgKinetic\w+)$`).FindAllSubmatch(file(t, "docs/operations.md"), -1) {
		headings = append(headings, string(m[1]))
	}
	for _, a := range alerts(t) {
		names = append(names, a.Alert)
	}
	slices.Sort(headings)
	slices.Sort(names)
	if !slices.Equal(headings, names) {
		t.Errorf("runbooks %v\nalerts   %v", headings, names)
	}
}

// Metrics that pages and rules name exist.
func TestMetricsInDocuments(t *testing.T) {
	all := series(t)
	for _, m := range Table {
		all[m.Name] = known{}
	}
	for _, path := range []string{"docs/operations.md", "docs/overload.md", "docs/metrics.md"} {
		found := 0
		for _, name := range regexp.MustCompile(`\bpg_kinetic_\w+`).FindAllString(string(file(t, path)), -1) {
			if _, ok := all[name]; !ok {
				t.Errorf("%s: there is no %s", path, name)
			}
			found++
		}
		if found == 0 {
			t.Errorf("%s names no metric", path)
		}
	}
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ H, W, X, Y int }
	Targets     []struct{ RefID, Expr, LegendFormat string }
}

// The dashboard can be read, its panels name what there is and do not lie upon each other, and nothing of the table is left out.
func TestDashboard(t *testing.T) {
	var d struct {
		Title, UID string
		Templating struct {
			List []struct {
				Name, Type string
				Query      any
			}
		}
		Panels []panel
	}
	if err := json.Unmarshal(file(t, "configs/grafana-dashboard.json"), &d); err != nil {
		t.Fatal(err)
	}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
	}
	if d.UID == "" || !slices.Equal(variables, []string{"datasource", "instance", "route"}) {
		t.Errorf("uid %q, variables %v", d.UID, variables)
	}
	all, rows := newJudge(series(t)), 0
	for i, p := range d.Panels {
		for _, o := range d.Panels[:i] {
			if p.ID == o.ID || p.GridPos.X < o.GridPos.X+o.GridPos.W && o.GridPos.X < p.GridPos.X+p.GridPos.W &&
				p.GridPos.Y < o.GridPos.Y+o.GridPos.H && o.GridPos.Y < p.GridPos.Y+p.GridPos.H {
				t.Errorf("%s and %s are in one place, or have one id", p.Title, o.Title)
			}
		}
		if p.Title == "" || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 1 {
			t.Errorf("panel %d: %+v", p.ID, p)
		}
		if p.Type == "row" {
			rows++
			continue
		}
		if len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s: no query, or not from the variable's source", p.Title)
		}
		for _, q := range p.Targets {
			j := newJudge(all.series)
			labels := j.query(q.Expr)
			for _, m := range regexp.MustCompile(`\{\{(\w+)\}\}`).FindAllStringSubmatch(q.LegendFormat, -1) {
				if !slices.Contains(labels, m[1]) {
					j.problem("the legend names %s, which is no label of %v", m[1], labels)
				}
			}
			if !strings.Contains(q.Expr, `instance=~"$instance"`) {
				j.problem("it does not follow the variable instance")
			}
			j.report(t, p.Title+": "+q.Expr)
			for name := range j.names {
				all.names[name] = true
			}
		}
	}
	if rows != 7 {
		t.Errorf("%d rows", rows)
	}
	for _, m := range Table {
		if m.Name != "pg_kinetic_build_info" && !all.names[m.Name] && !all.names[m.Name+"_bucket"] {
			t.Errorf("%s is shown nowhere", m.Name)
		}
	}
}
