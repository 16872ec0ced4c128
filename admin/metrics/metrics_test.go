package metrics

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"pgkinetic/admin/admintest"
	"pgkinetic/admin/view"
)

var update = flag.Bool("update", false, "write the generated files instead of comparing them")

// exposition is what is written of a snapshot, as Prometheus reads it.
func exposition(t testing.TB, m *view.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	var text bytes.Buffer
	if err := Write(&text, m, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	return families
}

func full(routes int) *view.Metrics {
	return (&admintest.Control{Rows: routes, Healthy: view.Health{Reason: "paused"}}).Metrics()
}

// Every metric of the table is written with its type, its help and its labels, and with a value when there is one.
func TestEveryMetricIsWritten(t *testing.T) {
	families := exposition(t, full(2))
	for _, m := range Table {
		f := families[m.Name]
		if f == nil {
			t.Errorf("%s is not written", m.Name)
			continue
		}
		if f.GetHelp() != m.Help || !strings.EqualFold(f.GetType().String(), string(m.Type)) {
			t.Errorf("%s: help %q, type %s", m.Name, f.GetHelp(), f.GetType())
		}
		nonzero := false
		for _, s := range f.Metric {
			var labels []string
			for _, l := range s.Label {
				labels = append(labels, l.GetName())
			}
			slices.Sort(labels)
			if want := slices.Sorted(slices.Values(m.Labels)); !slices.Equal(labels, want) {
				t.Errorf("%s has labels %v, the table says %v", m.Name, labels, want)
			}
			nonzero = nonzero || s.GetCounter().GetValue()+s.GetGauge().GetValue() > 0 || s.GetHistogram().GetSampleCount() > 0
		}
		if !nonzero {
			t.Errorf("%s is always zero", m.Name)
		}
	}
}

// Names follow Prometheus's rules, and ours: a counter and nothing else ends in _total.
func TestNames(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range Table {
		if seen[m.Name] {
			t.Errorf("%s stands twice in the table", m.Name)
		}
		seen[m.Name] = true
		if !strings.HasPrefix(m.Name, "pg_kinetic_") || strings.HasSuffix(m.Name, "_total") != (m.Type == Counter) {
			t.Errorf("%s is no name of a %s", m.Name, m.Type)
		}
		if m.Help == "" || strings.ContainsAny(m.Help, "\\\n|") {
			t.Errorf("%s: %q is no help", m.Name, m.Help)
		}
	}
}

// Whatever a snapshot tells is in the text: no field of it can change unseen.
func TestEveryFieldIsWritten(t *testing.T) {
	text := func(m *view.Metrics) string {
		var b bytes.Buffer
		if err := Write(&b, m, ""); err != nil {
			t.Fatal(err)
		}
		ours, _, _ := strings.Cut(b.String(), "\n# HELP go_")
		return ours
	}
	m := full(1)
	before := text(m)
	unseen := []string{ // told by /readyz, by SHOW LIMITS, and by the process's own metrics
		"Health.Ready", "Health.Detail", "Health.Failing[0]", "Health.Version", "Health.UptimeMs", "Health.Clients",
		"Limits[0].Peak", "Limits[0].Origin",
	}
	eachLeaf(reflect.ValueOf(m).Elem(), "", func(path string, leaf reflect.Value) {
		old := reflect.ValueOf(leaf.Interface())
		switch {
		case leaf.Kind() == reflect.String:
			leaf.SetString("draining")
		case leaf.Kind() == reflect.Bool:
			leaf.SetBool(!leaf.Bool())
		case leaf.CanInt():
			leaf.SetInt(leaf.Int() + 1e6)
		case leaf.CanUint():
			leaf.SetUint(leaf.Uint() + 1e6)
		case leaf.CanFloat():
			leaf.SetFloat(leaf.Float() + 1e6)
		}
		if (text(m) == before) != slices.Contains(unseen, path) {
			t.Errorf("%s: changed, is it seen? The test says otherwise", path)
		}
		leaf.Set(old)
	})
}

// eachLeaf visits every value, and of slices the first element only.
func eachLeaf(v reflect.Value, path string, f func(string, reflect.Value)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			eachLeaf(v.Field(i), name, f)
		}
	case reflect.Slice:
		if v.Len() == 0 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		}
		eachLeaf(v.Index(0), path+"[0]", f)
	default:
		f(path, v)
	}
}

func TestLabelValues(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		m := &view.Metrics{Routes: []view.RouteMetrics{{Route: name, InFlight: 7}}}
		got := exposition(t, m)["pg_kinetic_route_in_flight"].Metric[0]
		if got.Label[0].GetValue() != want || got.Gauge.GetValue() != 7 {
			t.Errorf("%q became %q", name, got.Label[0].GetValue())
		}
	}
	f("", "")
	f("shop/app/api 1/read", "shop/app/api 1/read")
	f("a\"b\\c\nd", "a\"b\\c\nd")
	f(`\n`, `\n`)
	f(`",x="`, `",x="`)
	f("}{ # é 漢 😀", "}{ # é 漢 😀")
	f("tab\tcr\r\x00", "tab\tcr\r\x00")
	f("caf\xe9", `caf\xe9`)
	f("\xff\xfe\xed\xa0\x80", `\xff\xfe\xed\xa0\x80`)
	f("cut \xf0\x9f\x98", `cut \xf0\x9f\x98`)
	f("\ufffd", "\ufffd")
}

func TestHistogram(t *testing.T) {
	m := &view.Metrics{Routes: []view.RouteMetrics{{
		Route: "r", QueryMs: view.Histogram{BoundsMs: []float64{0.1, 2.5, 60000}, Counts: []uint64{3, 0, 2, 1}, SumMs: 12.125},
	}}}
	var text bytes.Buffer
	if err := Write(&text, m, ""); err != nil {
		t.Fatal(err)
	}
	want := `
pg_kinetic_query_duration_ms_bucket{route="r",le="0.1"} 3
pg_kinetic_query_duration_ms_bucket{route="r",le="2.5"} 3
pg_kinetic_query_duration_ms_bucket{route="r",le="60000"} 5
pg_kinetic_query_duration_ms_bucket{route="r",le="+Inf"} 6
pg_kinetic_query_duration_ms_sum{route="r"} 12.125
pg_kinetic_query_duration_ms_count{route="r"} 6
`
	if !strings.Contains(text.String(), want) {
		t.Errorf("no %s", want)
	}
}

// What 200 routes with long and odd names tell is read as it was written, a series each.
func TestManyRoutes(t *testing.T) {
	m := full(200)
	for i := range m.Routes {
		m.Routes[i].Route = fmt.Sprintf("%d\"\\\n\xc3%s", i, strings.Repeat("x", 63))
	}
	families := exposition(t, m)
	seen := map[string]bool{}
	for i, s := range families["pg_kinetic_route_waiting"].Metric {
		if int(s.Gauge.GetValue()) != m.Routes[i].Waiting {
			t.Errorf("route %d: %v waiting instead of %d", i, s.Gauge.GetValue(), m.Routes[i].Waiting)
		}
		seen[s.Label[0].GetValue()] = true
	}
	if n := len(families["pg_kinetic_route_checkout_wait_ms"].Metric); len(seen) != 200 || n != 400 {
		t.Errorf("%d routes, %d histograms of waits", len(seen), n)
	}
}

// The process's own metrics come with type lines, and are read too.
func TestProcessMetrics(t *testing.T) {
	families := exposition(t, &view.Metrics{})
	for _, name := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "go_goroutines", "go_gc_duration_seconds"} {
		if f := families[name]; f == nil || f.GetType() == dto.MetricType_UNTYPED || len(f.Metric) == 0 {
			t.Errorf("%s: %v", name, f)
		}
	}
}

// Descriptors are counted without being listed.
func TestOpenDescriptors(t *testing.T) {
	open := func() float64 {
		families := exposition(t, &view.Metrics{})
		if limit := families["process_max_fds"].Metric[0].Gauge.GetValue(); limit < 100 {
			t.Errorf("%v descriptors may be open", limit)
		}
		return families["process_open_fds"].Metric[0].Gauge.GetValue()
	}
	before := open()
	const more = 50
	for range more {
		f, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if after := open(); after != before+more {
		t.Errorf("%v open descriptors, and with %d more %v", before, more, after)
	}
}

// limited takes so many bytes and fails then.
type limited struct{ room int }

var errFull = errors.New("full")

func (l *limited) Write(p []byte) (int, error) {
	if l.room < 0 {
		panic("written after an error")
	}
	l.room -= len(p)
	if l.room < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// A writer that fails is told so wherever it does, and asked no more.
func TestWriteError(t *testing.T) {
	m := full(50)
	var text bytes.Buffer
	if err := Write(&text, m, ""); err != nil {
		t.Fatal(err)
	}
	ours := strings.Index(text.String(), "# HELP go_")
	for room := 0; room < ours+100; room += 4000 {
		if err := Write(&limited{room}, m, ""); !errors.Is(err, errFull) {
			t.Errorf("after %d bytes: %v", room, err)
		}
	}
}

func TestReferencePage(t *testing.T) {
	path := filepath.FromSlash("../../docs/metrics.md")
	want := reference(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/metrics.md does not match the table: run go generate ./admin/metrics")
	}
}

func reference(t *testing.T) string {
	intro, err := os.ReadFile(filepath.Join("testdata", "metrics_intro.txt"))
	if err != nil {
		t.Fatal(err)
	}
	b := bytes.NewBuffer(intro)
	b.WriteString("\n## All metrics\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range Table {
		var labels []string
		for _, l := range m.Labels {
			labels = append(labels, "`"+l+"`")
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, strings.Join(labels, ", "), m.Help)
	}
	return b.String()
}
