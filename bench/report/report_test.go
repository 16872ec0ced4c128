package report

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/bench/figures"
)

func sample() Results {
	series := func(target string, cpu ...float64) figures.Series {
		s := figures.Series{Target: target, Program: target + " 1.0"}
		for _, v := range cpu {
			s.Rounds = append(s.Rounds, figures.Round{Sample: figures.Sample{figures.TPS: 1000 / v}})
			if target != "direct" {
				s.Rounds[len(s.Rounds)-1].Sample[figures.CPU] = v
			}
		}
		return s
	}
	var r Results
	r.Put(Case{
		Name: "simple/64", Order: 2, About: "short <queries> & others", Clients: 64, Backends: 20, Rounds: 3, Seconds: 5,
		Measured: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), Machine: Machine{CPUs: 2, CPU: "some", Kernel: "Linux 6"},
		Baseline: "pgbouncer",
		Series:   []figures.Series{series("direct", 1), series("pg-kinetic", 8, 9, 12), series("pgbouncer", 10, 10, 10)},
		Skipped:  []Skip{{"odyssey", "not installed"}},
		Verdicts: []figures.Verdict{
			{Criterion: figures.Criterion{Name: "a", Text: "CPU", Most: 1, Tolerance: 0.1}, Value: 0.9, Judged: true, Met: true},
			{Criterion: figures.Criterion{Name: "b", Text: "speed", Least: 2, Tolerance: 0.1}, Value: 1.5, Judged: true, Unquiet: true},
			{Criterion: figures.Criterion{Name: "c", Text: "other", Most: 1}, Why: "x was not measured"},
		},
	})
	r.Cases[0].Series[1].Rounds[0].Disturbed = true
	r.Cases[0].Series[1].Rounds[0].Trouble = "client 3 aborted"
	r.Cases[0].Series[2].Note = "old"
	r.Put(Case{Name: "first", Order: 1, About: "one", Baseline: "pgbouncer", Series: []figures.Series{series("pg-kinetic", 5)}})
	return r
}

func TestMarkdown(t *testing.T) {
	r := sample()
	text := r.Markdown()
	for _, want := range []string{
		"| CPU/tx µs        |                    – |         9.00 ±33% (0.90) |     10.00 |",
		"| tx/s             |         1000 (10.00) |          111 ±25% (1.11) |       100 |",
		"- pgbouncer: old\n", "- odyssey left out: not installed\n", "- pg-kinetic: 1 of 3 rounds on a disturbed machine",
		"- pg-kinetic: client 3 aborted\n", "- 2026-11-30: 2 CPUs (some), 0 GiB, Linux 6", "- pg-kinetic: pg-kinetic 1.0\n",
		"missed (disturbed)", "not judged: x was not measured", "64 clients, 20 backends, 3 rounds of 5 s.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if first, second := strings.Index(text, "### first"), strings.Index(text, "### simple/64"); first < 0 || second < first {
		t.Error("the cases are not in their order")
	}
}

func TestOverview(t *testing.T) {
	r := sample()
	r.Put(Case{Name: "own", Order: 3, Own: true, Rounds: 1, Baseline: "mine", Series: []figures.Series{
		{Target: "mine", Rounds: []figures.Round{{Sample: figures.Sample{figures.TPS: 77}}}},
	}})
	text := r.Overview()
	for _, want := range []string{
		"- 3 rounds of 5 s: simple/64\n", "- rounds of other lengths, 1 of them: own\n", "- pgbouncer, old: simple/64\n",
		"- rounds on a disturbed machine among those that count: simple/64\n", "| simple/64 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if strings.Contains(text, "| own") || strings.Contains(text, "mine |") {
		t.Errorf("a case with targets of its own is in a table\n%s", text)
	}
}

func TestTablesAreAligned(t *testing.T) {
	lines := strings.Split(strings.TrimSpace(table([][]string{{"a", "b"}, {"µ", "12345"}, {"long one", "–"}})), "\n")
	for _, line := range lines {
		if n := len([]rune(line)); n != len([]rune(lines[0])) {
			t.Errorf("%q has %d runes", line, n)
		}
	}
}

func TestAResultTakesThePlaceOfAnOlderOne(t *testing.T) {
	dir := t.TempDir()
	r, err := Read(dir)
	if err != nil || len(r.Cases) != 0 {
		t.Fatalf("of an empty directory: %+v, %v", r, err)
	}
	r = sample()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"results.json", "results.md", "cpu.svg", "tps.svg"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
	kept, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if kept.Markdown() != r.Markdown() {
		t.Error("what was read is not what was written")
	}
	kept.Put(Case{Name: "first", Order: 1, About: "anew"})
	if len(kept.Cases) != 2 || kept.Cases[0].About != "anew" {
		t.Errorf("%+v", kept.Cases)
	}
}

func TestChartsAreWellFormed(t *testing.T) {
	r := sample()
	charts := r.Charts()
	names := []string{}
	for _, c := range charts {
		names = append(names, c.Name)
		texts, bars := readSVG(t, c.SVG())
		if !slices.Contains(texts, "simple/64") || !slices.Contains(texts, "pg-kinetic") {
			t.Errorf("%s: texts %q", c.Name, texts)
		}
		want := 0
		for _, g := range c.Groups {
			want += g.bars()
		}
		if bars != want+len(c.Series)+1 { // and the legend, and the ground
			t.Errorf("%s: %d rectangles for %d bars", c.Name, bars, want)
		}
	}
	if a, b := charts[0].Series, charts[1].Series; len(a) != 2 || len(b) != 3 || a[0] != b[0] && a[0] != b[1] {
		t.Errorf("the colours differ: %v and %v", a, b)
	}
	if !slices.Equal(names, []string{"cpu", "tps"}) {
		t.Errorf("charts %v", names)
	}
	odd := Chart{Title: `a <"&> b`, Series: []Bars{{"x", "#000000"}}, Groups: []Group{{"none", []*Bar{nil}}, {"0", []*Bar{{Text: "0"}}}}}
	readSVG(t, odd.SVG())
}

func readSVG(t *testing.T, text string) (texts []string, rectangles int) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return texts, rectangles
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		switch e := token.(type) {
		case xml.CharData:
			texts = append(texts, string(e))
		case xml.StartElement:
			if e.Name.Local == "rect" {
				rectangles++
			}
		}
	}
}

func TestGate(t *testing.T) {
	r := sample()
	verdicts := r.Verdicts()
	b := Baseline{Values: map[string]float64{"a": 7, "of another run": 1}}
	if err := b.Take(verdicts, Machine{CPUs: 2}, time.Unix(0, 0)); err != nil || len(b.Values) != 3 || b.Values["a"] != 0.9 {
		t.Fatalf("%+v, %v", b, err)
	}
	path := filepath.Join(t.TempDir(), "baseline.json")
	if err := b.Write(path); err != nil {
		t.Fatal(err)
	}
	b, err := ReadBaseline(path)
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int, value float64) []figures.Verdict {
		changed := slices.Clone(verdicts)
		changed[i].Value = value
		return changed
	}
	for _, c := range []struct {
		name string
		run  []figures.Verdict
		want string
	}{
		{"the same", verdicts, ""},
		{"less CPU", at(0, 0.1), ""},
		{"a little more", at(0, 0.98), ""},
		{"much more", at(0, 1.0), "a (CPU): 1.000, baseline 0.900, tolerance 10 %"},
		{"faster", at(1, 3), ""},
		{"a little slower", at(1, 1.36), ""},
		{"slower", at(1, 1.34), "b (speed): 1.340, baseline 1.500, tolerance 10 %"},
		{"not of the gate", at(2, 99), ""},
	} {
		if got := strings.Join(b.Compare(c.run), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	unjudged := slices.Clone(verdicts)
	unjudged[0].Judged, unjudged[0].Why = false, "gone"
	if got := b.Compare(unjudged); len(got) != 1 || !strings.Contains(got[0], "not judged: gone") {
		t.Errorf("%q", got)
	}
	if new(Baseline).Take(unjudged, Machine{}, time.Now()) == nil {
		t.Error("a baseline without one of its figures")
	}
	delete(b.Values, "b")
	if got := b.Compare(verdicts); len(got) != 1 || !strings.Contains(got[0], "no value") {
		t.Errorf("%q", got)
	}
}

func TestPage(t *testing.T) {
	r := sample()
	page := "# Head\n" + pageBegin + "old\n" + pageEnd + "tail\n"
	fresh, err := r.rewrite(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(fresh, "# Head\n"+pageBegin) || !strings.HasSuffix(fresh, pageEnd+"tail\n") ||
		strings.Contains(fresh, "old\n"+pageEnd) || !strings.Contains(fresh, "| simple/64 |") {
		t.Error(fresh)
	}
	if again, err := r.rewrite(fresh); err != nil || again != fresh {
		t.Errorf("written again, it differs: %v", err)
	}
	for _, bad := range []string{"", pageBegin, pageEnd + pageBegin} {
		if _, err := r.rewrite(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	path := filepath.Join(t.TempDir(), "page.md")
	if err := r.Rewrite(path); err == nil {
		t.Error("a page that is not there was rewritten")
	}
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.Rewrite(path); err != nil {
		t.Error(err)
	}
}

func TestThisMachine(t *testing.T) {
	m := ThisMachine("15.1")
	if m.CPUs < 1 || m.Kernel == "" || m.Go == "" || !strings.Contains(m.String(), "PostgreSQL 15.1") {
		t.Errorf("%+v", m)
	}
}
