package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestEveryFolderIsADriver(t *testing.T) {
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	var names, folders []string
	for _, d := range drivers {
		names = append(names, d.name)
		for c := range d.lacks {
			if !slices.Contains(shared, c) {
				t.Errorf("%s lacks %q, which is no shared capability", d.name, c)
			}
		}
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "report" {
			folders = append(folders, e.Name())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, folders) {
		t.Errorf("the drivers are %v, the folders %v", names, folders)
	}
}

// TestVersionsAreFixed keeps manifests from asking for whatever is newest.
func TestVersionsAreFixed(t *testing.T) {
	files, err := filepath.Glob("*/requirements.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		for line := range strings.Lines(read(t, file)) {
			if _, version, fixed := strings.Cut(strings.TrimSpace(line), "=="); !fixed || version == "" {
				t.Errorf("%s: %q names no version", file, line)
			}
		}
	}
	for i := range drivers {
		d := &drivers[i]
		for _, lock := range [][2]string{{"package.json", "package-lock.json"}, {"Cargo.toml", "Cargo.lock"}} {
			_, manifest := os.Stat(filepath.Join(d.name, lock[0]))
			_, locked := os.Stat(filepath.Join(d.name, lock[1]))
			if manifest == nil && locked != nil {
				t.Errorf("%s has %s without %s", d.name, lock[0], lock[1])
			}
		}
	}
}

func TestParse(t *testing.T) {
	expected := []string{"prepare", "error"}
	for _, test := range []struct {
		name, printed string
		want          map[string]string // capability → part of the reason; "" works
	}{
		{"all works", "version 1.2\nbackends 3\nok prepare\nok error\n", map[string]string{"prepare": "", "error": ""}},
		{"a failure", "ok prepare\nFAIL error: it: broke\n", map[string]string{"prepare": "", "error": "it: broke"}},
		{"a failure without reason", "ok prepare\nFAIL error\n", map[string]string{"prepare": "", "error": "no reason"}},
		{"ends early", "ok prepare\n", map[string]string{"prepare": "", "error": "did not come"}},
		{"prints nothing", "", map[string]string{"prepare": "did not come", "error": "did not come"}},
		{"chatter", "hello\nok prepare\nok error\n", map[string]string{"prepare": "", "error": "", "program": "not a line"}},
		{"an unknown name", "ok prepare\nok error\nok more\n", map[string]string{"prepare": "", "error": "", "program": "not expected"}},
		{"a contradiction", "ok prepare\nok error\nFAIL error: no\n", map[string]string{"prepare": "", "error": "", "program": "twice"}},
		{"no number", "backends many\nok prepare\nok error\n", map[string]string{"prepare": "", "error": "", "program": "many"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := parse(test.printed, expected)
			for c, want := range test.want {
				if got := o.results[c]; !strings.Contains(got, want) || want == "" && got != "" {
					t.Errorf("%s: %q, want %q", c, got, want)
				}
			}
			for c, why := range o.results {
				if _, known := test.want[c]; !known && why != "" {
					t.Errorf("%s: %q, want nothing", c, why)
				}
			}
		})
	}
	if o := parse("version 1.2\nbackends 3\n", nil); o.version != "1.2" || o.backends != 3 {
		t.Errorf("got %+v", o)
	}
}

func TestTable(t *testing.T) {
	d := &driver{name: "d", title: "D", own: []string{"batch"}, lacks: map[string]string{"listen": "none"}}
	works := parse("version 7\n", nil)
	fails := &outcome{version: "7", results: map[string]string{"copy": "broke", "batch": "broke", moved: "one backend"}}
	text := table([]row{
		{driver: d, variant: "v=1", alone: works, contended: fails},
		{driver: d, alone: fails, contended: fails},
		{driver: d, skipped: "no | here"},
	})
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), text)
	}
	for _, line := range lines {
		if got := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); got != len(shared)+5 {
			t.Errorf("%d bars, want %d: %s", got, len(shared)+5, line)
		}
	}
	for i, parts := range [][]string{
		{"D, `v=1` | 7 |", "**alone**", "–", "batch **alone**"}, {"| **no** |", "batch **no**"}, {`skipped: no \| here`},
	} {
		for _, part := range parts {
			if !strings.Contains(lines[2+i], part) {
				t.Errorf("%q is missing in %s", part, lines[2+i])
			}
		}
	}
}

func TestRewriteKeepsTheText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drivers.md")
	text := "# Head\n" + tableBegin + "\nold\n" + tableEnd + "\nfoot\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds what the first has written
		if err := rewrite(path, nil); err != nil {
			t.Fatal(err)
		}
		got := read(t, path)
		if !strings.HasPrefix(got, "# Head\n"+tableBegin+"\n\n| driver |") || !strings.HasSuffix(got, "|\n\n"+tableEnd+"\nfoot\n") || strings.Contains(got, "old") {
			t.Errorf("got %q", got)
		}
	}
	if err := os.WriteFile(path, []byte("nothing"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(path, nil); err == nil {
		t.Error("a file without a table was written")
	}
}

// TestDocumentHasTheTable keeps docs/drivers.md and the list of drivers together.
func TestDocumentHasTheTable(t *testing.T) {
	text := read(t, filepath.FromSlash("../../docs/drivers.md"))
	_, rest, found := strings.Cut(text, tableBegin+"\n")
	written, _, ends := strings.Cut(rest, tableEnd+"\n")
	if !found || !ends {
		t.Fatal("docs/drivers.md has no table")
	}
	for _, d := range drivers {
		if !strings.Contains(written, "| "+d.title) {
			t.Errorf("docs/drivers.md does not name %s: make drivers TABLE=1", d.title)
		}
	}
	for _, c := range append(slices.Clone(shared), moved) {
		if !strings.Contains(text, "\n| "+c+" |") {
			t.Errorf("docs/drivers.md does not say what %s means", c)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSkippedOrFailed: what cannot be fetched is skipped, with words for the table that name no path; what does not build fails.
func TestSkippedOrFailed(t *testing.T) {
	broken := errors.New("no network, see " + t.TempDir())
	fails := func(*kit) error { return broken }
	works := func(*kit) error { return nil }
	for _, test := range []struct {
		name string
		kind kind
		want string // what is missing; "": no skip
	}{
		{"fetch", kind{fetch: fails, build: works}, "its packages cannot be had"},
		{"tool", kind{tools: []tool{{probe: []string{"true"}}, {probe: []string{"no-such-tool-of-drivers"}, packages: []string{"no-such-package-of-drivers"}}}}, "no-such-tool-of-drivers cannot be had"},
		{"build", kind{fetch: works, build: fails}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PATH", emptyPath(t))
			root := t.TempDir()
			if err := os.MkdirAll(filepath.Join(root, "internal", "drivers", "report"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(filepath.Join(root, "internal", "drivers", "d"), 0o755); err != nil {
				t.Fatal(err)
			}
			_, err := ready(&driver{name: "d", kind: test.kind}, root, t.TempDir())
			var missing *skipped
			switch {
			case err == nil:
				t.Error("no error")
			case errors.As(err, &missing) != (test.want != ""):
				t.Errorf("skipped is wrong: %v", err)
			case missing != nil && missing.missing != test.want:
				t.Errorf("%q is missing, want %q", missing.missing, test.want)
			}
		})
	}
}

// emptyPath is a PATH with nothing but true, so that no test asks for packages.
func emptyPath(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "true"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBuiltOnce(t *testing.T) {
	mark, n := filepath.Join(t.TempDir(), "built"), 0
	step := func() error { n++; return nil }
	for i, state := range []string{"a", "a", "b", "b", "a"} {
		if err := once(mark, state, step); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 1, 2, 2, 3}[i]; n != want {
			t.Errorf("after state %d (%s): %d steps, want %d", i, state, n, want)
		}
	}
	broken := errors.New("broken")
	if err := once(mark, "c", func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if err := once(mark, "c", step); err != nil || n != 4 {
		t.Errorf("a failed step counts as done: %d steps, %v", n, err)
	}
}
