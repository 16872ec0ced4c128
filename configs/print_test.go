package configs

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// printed returns what Print writes, with the directory of the settings file taken out.
func printed(t *testing.T, c *Config, o *Origins, path string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Print(&out, c, o); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(out.String(), filepath.Dir(path)+"/", "")
}

func TestPrintGolden(t *testing.T) {
	path := write(t, "full.yaml", fullYAML)
	c, o := mustLoad(t, path, []string{"PG_KINETIC_DRAIN__TIMEOUT_MS=0"}, []string{"--admission.fifo-slack-ms=0"})
	got := printed(t, c, o, path)
	golden := filepath.Join("testdata", "config.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (go test -run TestPrintGolden -update writes it):\n%s", golden, got)
	}
	if strings.Contains(got, "hunter2") || !strings.Contains(got, `password: "***" # file full.yaml:11:15`) {
		t.Error("the password is not masked")
	}
}

func TestPrintReadsBack(t *testing.T) {
	f := func(text string) {
		t.Helper()
		path := write(t, "a.yaml", text)
		c, o := mustLoad(t, path, []string{"SECRET=x"}, nil)
		again, _ := mustLoad(t, write(t, "b.yaml", printed(t, c, o, path)), []string{"SECRET=x"}, nil)
		for _, config := range []*Config{c, again} {
			for i := range config.Databases {
				config.Databases[i].Password = ""
			}
		}
		if !reflect.DeepEqual(c, again) {
			t.Errorf("\n got %+v\nwant %+v", again, c)
		}
	}
	f("")
	f(fullYAML)
	f("databases:\n- name: \"a\\\"\\\\\\t\\u00e9\\U0001F600\\x7f\"\n  connect_query: |\n    select 1;\n    select '#'\n")
	f("databases:\n- name: a\n  password_env: SECRET\n")
}
