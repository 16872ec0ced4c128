package main

import (
	"os"
	"testing"
)

func TestMedians(t *testing.T) {
	if got := medians([]round{{3, 30}, {1, 10}, {2, 20}}); got != (round{2, 20}) {
		t.Errorf("of three rounds: %v", got)
	}
	if got := medians([]round{{4, 10}, {1, 40}, {2, 30}, {3, 20}}); got != (round{2.5, 25}) {
		t.Errorf("of four rounds: %v", got)
	}
}

func TestProcFiles(t *testing.T) {
	before, err := cpuSeconds(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for n := 0; after <= before; n++ { // burns CPU until a tick is counted
		if after, err = cpuSeconds(os.Getpid()); err != nil || n > 10_000_000 {
			t.Fatalf("after %d turns: %v s, %v", n, after, err)
		}
	}
	if kib, err := residentKiB(os.Getpid()); err != nil || kib < 1000 {
		t.Errorf("resident memory of this test: %d KiB, %v", kib, err)
	}
}

func TestPgbenchReport(t *testing.T) {
	const report = `transaction type: <builtin: select only>
number of transactions actually processed: 51763
number of failed transactions: 0 (0.000%)
latency average = 7.4 ms
initial connection time = 35.2 ms
tps = 8630.900000 (without initial connection time)
`
	m := processed.FindStringSubmatch(report)
	if m == nil || m[1] != "51763" || m[2] != "8630.900000" {
		t.Errorf("read %q", m)
	}
	if processed.MatchString("number of transactions actually processed: 5\nnumber of failed transactions: 1 (20%)\ntps = 1\n") {
		t.Error("a run with failed transactions was taken")
	}
}
