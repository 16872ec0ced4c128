package console

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/internal/difftest"
)

var update = flag.Bool("update", false, "write the golden files and the tables of the documentation instead of comparing them")

// TestDialogues plays testdata/dialogues and compares every message, and what the
// pooler was told meanwhile, with the .golden files.
func TestDialogues(t *testing.T) {
	all, err := difftest.Load("testdata/dialogues")
	if err != nil {
		t.Fatal(err)
	}
	transcripts := map[string]*strings.Builder{}
	for _, d := range all {
		control := newFake()
		login, transcript, err := d.Run(listen(t, control).address)
		if err != nil {
			t.Errorf("%s: %v", d.Name, err)
		}
		file, name, _ := strings.Cut(d.Name, "/")
		if transcripts[file] == nil {
			transcripts[file] = &strings.Builder{}
		}
		b := transcripts[file]
		b.WriteString("== " + name + "\n")
		if name == "parameters" {
			b.WriteString(login)
		}
		b.WriteString(transcript)
		for call := range strings.SplitSeq(control.did(), "; ") {
			if call != "" {
				b.WriteString("called: " + call + "\n")
			}
		}
	}
	for file, got := range transcripts {
		golden(t, filepath.Join("testdata/dialogues", file+".golden"), got.String())
	}
}

// golden compares a text with a file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Logf("%s differs; after a wanted change: go test ./admin/console -update", path)
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		switch {
		case i >= len(g):
			t.Fatalf("%s:%d: missing %q", path, i+1, w[i])
		case i >= len(w) || g[i] != w[i]:
			t.Fatalf("%s:%d: got %q", path, i+1, g[i])
		}
	}
}
