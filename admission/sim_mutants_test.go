//go:build sim

package admission

import (
	"flag"
	"os/exec"
	"strings"
	"testing"
)

var mutants = flag.Bool("mutants", false, "build and test every mutation")

// TestMutants builds the package once for each mutation and expects its scenario to fail with the invariant that the
// scenario names for it.
func TestMutants(t *testing.T) {
	if !*mutants {
		t.Skip("only with -mutants: it builds the package once for each mutation")
	}
	for _, s := range scenarios {
		for tag, want := range s.mutants {
			t.Run(tag, func(t *testing.T) {
				cmd := exec.Command("go", "test", "-count=1", "-tags", "sim "+tag, "-run", "^TestScenarios$/^"+s.name+"$", ".")
				out, err := cmd.CombinedOutput()
				if err == nil {
					t.Fatalf("%s survives %s", tag, s.name)
				}
				if !strings.Contains(string(out), want) {
					t.Fatalf("%s fails %s, but not with %q:\n%s", tag, s.name, want, out)
				}
			})
		}
	}
}
