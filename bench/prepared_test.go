package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"pgkinetic/internal/pooler"
)

func TestWhichPgBouncerTracksStatements(t *testing.T) {
	for _, c := range []struct {
		report, version string
		tracks          bool
	}{
		{"PgBouncer 1.18.0\nlibevent 2.1.12-stable\n", "1.18.0", false},
		{"PgBouncer 1.20.1\n", "1.20.1", false},
		{"PgBouncer 1.21.0\n", "1.21.0", true},
		{"PgBouncer 1.25.1\n", "1.25.1", true},
		{"PgBouncer 2.0\n", "2.0", true},
	} {
		version, tracks, err := readVersion(c.report)
		if err != nil || version != c.version || tracks != c.tracks {
			t.Errorf("%q: %q, %v, %v; want %q, %v", c.report, version, tracks, err, c.version, c.tracks)
		}
	}
	if _, _, err := readVersion("no such program\n"); err == nil {
		t.Error("a report without a version was taken")
	}
}

func TestPreparedIsJudgedByItsMedians(t *testing.T) {
	var report bytes.Buffer
	defer func(chosen io.Writer) { out = chosen }(out)
	out = &report
	for _, c := range []struct {
		ours, theirs []round
		met          bool
	}{
		{[]round{{9, 1}, {8, 1}, {50, 1}}, []round{{10, 1}, {10, 1}, {1, 1}}, true}, // exactly 0.9
		{[]round{{9.1, 1}}, []round{{10, 1}}, false},
		{[]round{{1, 1}, {12, 1}, {12, 1}}, []round{{10, 1}, {10, 1}, {99, 1}}, false},
	} {
		report.Reset()
		met := judgePrepared([]*contender{
			{target: pooler.Kinetic, protocol: "prepared", rounds: c.ours},
			{target: pooler.PgBouncer, protocol: "simple", rounds: c.theirs},
		})
		if met != c.met || !strings.Contains(report.String(), verdict(c.met)) {
			t.Errorf("%v against %v: %v, want %v\n%s", c.ours, c.theirs, met, c.met, &report)
		}
	}
}
