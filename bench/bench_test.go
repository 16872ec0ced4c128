package main

import (
	"math"
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

func TestShareOfTheMachine(t *testing.T) {
	then := usage{idle: 10, all: 100, ours: 5}
	for _, c := range []struct {
		now  usage
		want share
		calm bool
	}{
		{usage{idle: 15, all: 110, ours: 10}, share{0.5, 0}, true},
		{usage{idle: 15, all: 110, ours: 9}, share{0.5, 0.1}, false},
		{usage{idle: 13, all: 110, ours: 12}, share{0.3, 0}, false},
		{then, share{0, 1}, false}, // no time has passed
	} {
		got := c.now.since(then)
		if math.Abs(got.free-c.want.free) > 1e-9 || math.Abs(got.others-c.want.others) > 1e-9 || got.calm() != c.calm {
			t.Errorf("%+v: %+v, calm %v; want %+v, %v", c.now, got, got.calm(), c.want, c.calm)
		}
	}
}
