package pgbench

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/bench/figures"
)

const report = `transaction type: <builtin: select only>
number of transactions actually processed: 51763
number of failed transactions: 0 (0.000%)
latency average = 7.400 ms
initial connection time = 35.2 ms
tps = 8630.900000 (without initial connection time)
`

func TestReport(t *testing.T) {
	r, err := readReport(report)
	if err != nil || r.Transactions != 51763 || r.TPS != 8630.9 || r.Mean != 7.4 || r.Errors != 0 || r.Connecting != 0 ||
		r.Initial != 35200*time.Microsecond {
		t.Errorf("read %+v, %v", r, err)
	}
}

func TestReportWithFailures(t *testing.T) {
	r, err := readReport(strings.Replace(report, "failed transactions: 0", "failed transactions: 7", 1))
	if err != nil || r.Errors != 7 || r.Sample()[figures.Errors] != 7 {
		t.Errorf("read %+v, %v", r, err)
	}
	for _, text := range []string{"", strings.Replace(report, "51763", "0", 1), "number of transactions actually processed: 5\n"} {
		if r, err := readReport(text); err == nil {
			t.Errorf("%q was taken: %+v", text, r)
		}
	}
}

func TestReportWithConnections(t *testing.T) {
	r, err := readReport(`number of transactions actually processed: 800/800
latency average = 1.5 ms
average connection time = 0.821 ms
tps = 660.1 (including reconnection times)
`)
	if err != nil || r.Connecting != 0.821 || r.Sample()[figures.Connecting] != 0.821 || r.TPS != 660.1 {
		t.Errorf("read %+v, %v", r, err)
	}
}

func TestErrorMessages(t *testing.T) {
	n, first := readErrors(`pgbench: warning: something
pgbench: error: client 3 script 0 aborted in command 1 query 0: FATAL:  no more
pgbench: error: client 4 script 0 aborted in command 1 query 0: FATAL:  no more
pgbench: error: Run was aborted; the above results are incomplete.
`)
	if n != 2 || first != "client 3 script 0 aborted in command 1 query 0: FATAL:  no more" {
		t.Errorf("%d, %q", n, first)
	}
}

func TestLog(t *testing.T) {
	got, err := readLog(strings.NewReader(`0 199 2241 0 1175850568 995598
1 3 failed 0 1175850569 123
0 200 1500 0 1175850568 998079 12
`), []float64{9})
	if err != nil || !slices.Equal(got, []float64{9, 2.241, 1.5}) {
		t.Errorf("read %v, %v", got, err)
	}
	for _, text := range []string{"0 1 2241", "0 1 22x1 0 1 1", "word"} {
		if got, err := readLog(strings.NewReader(text), nil); err == nil {
			t.Errorf("%q was taken: %v", text, got)
		}
	}
}

func TestQuantilesOfAResult(t *testing.T) {
	r := Result{TPS: 10, Mean: 50.5}
	for i := range 1000 {
		r.Latencies = append(r.Latencies, float64(i+1))
	}
	s := r.Sample()
	want := figures.Sample{figures.P50: 500, figures.P95: 950, figures.P99: 990, figures.P999: 999, figures.TPS: 10}
	for f, want := range want {
		if s[f] != want {
			t.Errorf("%s is %v, want %v", f, s[f], want)
		}
	}
	if _, ok := s[figures.Connecting]; ok {
		t.Error("a time of connections without any")
	}
}

func TestOutputIsBounded(t *testing.T) {
	var l limited
	for range 3 {
		if n, err := l.Write(make([]byte, maxOutput/2+1)); n != maxOutput/2+1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if l.Len() != maxOutput {
		t.Errorf("%d bytes are kept", l.Len())
	}
}
