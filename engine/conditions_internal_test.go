package engine

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestConditionNames: they are those of the PostgreSQL that is installed, if its list is.
func TestConditionNames(t *testing.T) {
	text, err := os.ReadFile("/usr/share/postgresql/15/errcodes.txt")
	if err != nil {
		t.Skip("no list of PostgreSQL's error codes is installed")
	}
	row := regexp.MustCompile(`^([0-9A-Z]{5})\s+[EWS]\s+\w+\s+(\w+)\s*$`)
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if m := row.FindStringSubmatch(line); m != nil && known[m[1]] == "" {
			known[m[1]] = m[2]
		}
	}
	for code, name := range known {
		if conditionNames[code] != name {
			t.Errorf("%s is %q, not %q", code, name, conditionNames[code])
		}
	}
	if len(known) < 200 || len(conditionNames) != len(known) {
		t.Errorf("%d names, PostgreSQL has %d", len(conditionNames), len(known))
	}
}
