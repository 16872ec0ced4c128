package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/report"
	"pgkinetic/bench/targets"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// One second of one case, direct and through pg-kinetic: the whole way from the flags to the files.
func TestOneCase(t *testing.T) {
	binary, err := pooler.Built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out strings.Builder
	status, err := bench(t.Context(), []string{
		"-only", "simple/1", "-targets", "direct,pg-kinetic", "-pg-kinetic", binary, "-rounds", "1", "-seconds", "1", "-scale", "1",
		"-out", dir, "-repeat=false", "-no-syscalls",
	}, &out, os.Stderr)
	if err != nil || status != statusOK { // its criteria need PgBouncer
		t.Fatalf("status %d, %v\n%s", status, err, &out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r report.Results
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Cases) != 1 || len(r.Cases[0].Series) != 2 || r.Cases[0].Machine.PostgreSQL == "" {
		t.Fatalf("%+v", r)
	}
	for _, s := range r.Cases[0].Series {
		for _, f := range []figures.Figure{figures.TPS, figures.Mean, figures.P50, figures.P99} {
			if spread, ok := s.Of(f); !ok || spread.Median <= 0 {
				t.Errorf("%s: %s is %+v", s.Target, f, spread)
			}
		}
		if spread, ok := s.Of(figures.CPU); ok != (s.Target == kinetic) || ok && spread.Median <= 0 {
			t.Errorf("%s: CPU %+v", s.Target, spread)
		}
	}
	for _, v := range r.Cases[0].Verdicts {
		if v.Judged || !strings.Contains(v.Why, "pgbouncer was not measured") {
			t.Errorf("%+v", v)
		}
	}
	if !strings.Contains(out.String(), "### simple/1") {
		t.Errorf("printed:\n%s", &out)
	}
}

func TestPostgresOfADSN(t *testing.T) {
	server := pgtest.Shared(t)
	p, err := openPostgres(t.Context(), server.DSN("postgres", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if p.Port != server.Port || p.ours || p.version == "" || p.postmaster == 0 || p.User != "postgres" {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"host=/tmp", "postgres://postgres@127.0.0.1:1/postgres", "port=x"} {
		if _, err := openPostgres(t.Context(), bad); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func definitions() []targets.Definition {
	return []targets.Definition{{Name: "direct"}, {Name: kinetic}, {Name: "pgbouncer"}}
}

func TestFlags(t *testing.T) {
	o, err := parse([]string{
		"-only", "a,b/1", "-targets", "pgbouncer,pg-kinetic", "-versus", "old", "-flags", "--a=1 --b=2", "-seconds", "1.5",
	}, io.Discard, definitions())
	if err != nil {
		t.Fatal(err)
	}
	if len(o.only) != 2 || len(o.kineticArgs) != 2 || o.length != 1500*time.Millisecond || len(o.choices) != 3 ||
		o.choices[0].Name != kinetic || o.choices[2].Binary != "old" || o.choices[2].Of != kinetic {
		t.Errorf("%+v", o)
	}
	if o, err = parse([]string{"-gate", "x"}, io.Discard, definitions()); err != nil || len(o.choices) != 2 {
		t.Errorf("the gate's targets: %+v, %v", o.choices, err)
	}
	for _, bad := range []string{
		"-targets odyssey", "-rounds 0", "-seconds 0.5", "-update", "-render", "-baseline odyssey", "-backends 0", "more", "-no-such-flag",
	} {
		if _, err := parse(strings.Fields(bad), io.Discard, definitions()); err == nil {
			t.Errorf("%s was taken", bad)
		}
	}
}

func TestProgressNeedsATerminal(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := newProgress(f, 10)
	p.show("something")
	p.step(1)
	p.clear()
	if s, err := f.Stat(); err != nil || s.Size() != 0 {
		t.Errorf("%d bytes were written, %v", s.Size(), err)
	}
}

func TestProgressLine(t *testing.T) {
	var b strings.Builder
	p := &progress{w: &b, total: 10, began: time.Now()}
	if got := p.line("x", 0); got != "0 of 10 rounds, 0s: x" {
		t.Errorf("%q", got)
	}
	p.step(4)
	if got := p.line("y", time.Minute); got != "4 of 10 rounds, 1m0s, about 1m30s left: y" {
		t.Errorf("%q", got)
	}
	p.show("z")
	p.clear()
	p.clear()
	if got := b.String(); strings.Count(got, clearLine) != 2 || !strings.HasSuffix(got, clearLine) {
		t.Errorf("%q", got)
	}
}

func conclude(o options, verdicts ...figures.Verdict) (int, string, error) {
	var out strings.Builder
	r := &run{options: o, out: &out}
	results := report.Results{Cases: []report.Case{{Name: "a", Verdicts: verdicts}}}
	status, err := r.conclude(&results)
	return status, out.String(), err
}

func TestStatus(t *testing.T) {
	met := figures.Verdict{Judged: true, Met: true, Value: 1}
	met.Name, met.Most, met.Tolerance = "m", 1, 0.1
	missed, unjudged := met, met
	missed.Met, missed.Value = false, 2
	unjudged.Judged, unjudged.Met = false, false
	baseline, foreign := filepath.Join(t.TempDir(), "baseline.json"), filepath.Join(t.TempDir(), "foreign.json")
	other := report.Baseline{Machine: report.Machine{CPU: "other"}, Values: map[string]float64{"m": 1}}
	if err := other.Write(foreign); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		o      options
		v      figures.Verdict
		status int
		says   string
	}{
		{"met", options{}, met, statusOK, ""},
		{"missed", options{}, missed, statusMissed, "1 of 1 criteria missed"},
		{"not judged", options{}, unjudged, statusOK, ""},
		{"a new baseline", options{gate: baseline, update: true}, met, statusOK, ""},
		{"the same as the baseline", options{gate: baseline}, met, statusOK, "no regression"},
		{"worse than the baseline", options{gate: baseline}, missed, statusMissed, "regression: m "},
		{"worse than another machine", options{gate: foreign}, missed, statusMissed, "of another machine (other"},
		{"not judged by the gate", options{gate: baseline}, unjudged, statusMissed, "not judged"},
	} {
		status, out, err := conclude(c.o, c.v)
		if err != nil || status != c.status || !strings.Contains(out, c.says) {
			t.Errorf("%s: status %d, %v, %q", c.name, status, err, out)
		}
	}
	if status, _, err := conclude(options{gate: filepath.Join(t.TempDir(), "none")}, met); status != statusFailed || err == nil {
		t.Errorf("without a baseline: %d, %v", status, err)
	}
	if status, _, err := conclude(options{page: filepath.Join(t.TempDir(), "none")}, met); status != statusFailed || err == nil {
		t.Errorf("without a page: %d, %v", status, err)
	}
}

func TestListAndMistakes(t *testing.T) {
	var out strings.Builder
	if status, err := bench(context.Background(), []string{"-list"}, &out, os.Stderr); status != statusOK || err != nil {
		t.Error(status, err)
	}
	for _, want := range []string{"cpu-simple-64", "target pgbouncer", "idle: "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not listed", want)
		}
	}
	for _, bad := range []string{"-only nonsense", "-docs /no/such/page"} {
		if status, err := bench(t.Context(), strings.Fields(bad), io.Discard, os.Stderr); status != statusFailed || err == nil {
			t.Errorf("%s: %d, %v", bad, status, err)
		}
	}
}

// What was measured before can be written anew without measuring.
func TestRender(t *testing.T) {
	dir := t.TempDir()
	r := report.Results{Cases: []report.Case{{Name: "a", About: "b"}}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "results.md")); err != nil {
		t.Fatal(err)
	}
	if status, err := bench(t.Context(), []string{"-render", "-out", dir}, io.Discard, os.Stderr); status != statusOK || err != nil {
		t.Fatal(status, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "results.md")); err != nil || !strings.Contains(string(text), "### a") {
		t.Errorf("%s, %v", text, err)
	}
}

// TestMissingFiles are told of before anything is measured.
func TestMissingFiles(t *testing.T) {
	self, err := os.Executable() // a program that is there
	if err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-pg-kinetic /no/such/file":                    "make build",
		"-versus /no/such/file -pg-kinetic " + self:    "/no/such/file",
		"-pg-kinetic " + self + " -gate /no/such/file": "/no/such/file",
		"-pg-kinetic " + self + " -docs /no/such/page": "/no/such/page",
		"-only no-such-scenario -pg-kinetic " + self:   "no-such-scenario",
	} {
		status, err := bench(t.Context(), strings.Fields(args), io.Discard, os.Stderr)
		if status != statusFailed || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %d, %v", args, status, err)
		}
	}
}
