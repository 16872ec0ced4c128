// Package lint holds the rules of this repository that a machine can check: who may import whom, where the clock may be
// read, how long files and functions may be, what lies at the top level. It has tests only.
package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

const module = "pgkinetic"

// source is one Go file: its path from the module's root, its package's directory, whether it is a test.
type source struct {
	path, dir string
	test      bool
	file      *ast.File
	lines     int
}

// tracked lists the repository's files; without git (an unpacked archive) everything that no hidden directory or build
// output holds.
func tracked(t *testing.T) (string, []string) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "ls-files", "-z")
	cmd.Dir = root
	if out, err := cmd.Output(); err == nil {
		paths := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		return root, slices.DeleteFunc(paths, func(path string) bool {
			_, err := os.Stat(filepath.Join(root, path))
			return err != nil // removed but not yet committed
		})
	}
	var paths []string
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (rel == "bin" || rel == ".git" || rel == ".run"):
			return filepath.SkipDir
		case !d.IsDir():
			paths = append(paths, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return root, paths
}

func sources(t *testing.T, fset *token.FileSet) []source {
	t.Helper()
	root, paths := tracked(t)
	var all []source
	for _, path := range paths {
		if !strings.HasSuffix(path, ".go") || strings.Contains(path, "testdata/") {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(root, path), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		all = append(all, source{
			path: path, dir: filepath.Dir(path), test: strings.HasSuffix(path, "_test.go"), file: file,
			lines: fset.File(file.FileStart).LineCount(),
		})
	}
	return all
}

// inside tells whether a slash path is one of the directories or lies below one.
func inside(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return path == d || strings.HasPrefix(path, d+"/") })
}

// imports are the directories of this module that the non-test files of a directory may import. The longest key that
// holds the directory counts; a directory may always import what lies below its own key.
var imports = map[string][]string{
	"cmd":                {"engine", "admin", "configs"},
	"engine":             {"protocol", "admission", "backend", "reaper", "configs", "admin/view"},
	"engine/auth":        {"protocol", "configs"},
	"engine/auth/lookup": {"protocol", "configs", "backend", "engine/auth", "engine/dial"},
	"engine/dial":        {"protocol", "configs", "backend"},
	"engine/resolve":     {},
	"engine/session":     {"protocol", "configs"},
	"engine/statements":  {"protocol", "configs"},
	"engine/tlsconfig":   {"configs"},
	"engine/reactor":     {"reaper"},
	"admin":              {"protocol", "configs"},
	"admin/view":         {},
	"backend":            {"protocol", "configs"},
	"configs":            {},
	"protocol":           {},
	"admission":          {},
	"reaper":             {},
	"bench":              {"internal"},
	"internal":           {"protocol", "configs"},
}

func rule(dir string) (string, []string) {
	key := ""
	for k := range imports {
		if inside(dir, k) && len(k) > len(key) {
			key = k
		}
	}
	return key, imports[key]
}

// only lists the directories whose non-test files may import a library.
var only = []struct {
	library string
	dirs    []string
	tests   bool // tests are free
}{
	{"github.com/jackc/pgx", []string{"backend", "engine", "admin", "internal", "bench"}, true},
	{"github.com/lib/pq", []string{"internal", "bench"}, true},
	{"github.com/xdg-go/scram", []string{"internal"}, true}, // the other side, for tests
	{"github.com/xdg-go/stringprep", []string{"protocol/scram"}, true},
	{"github.com/knadh/koanf", []string{"configs"}, true},
	{"github.com/pelletier/go-toml", []string{"configs"}, true},
	{"go.yaml.in/yaml", []string{"configs", "cmd", "bench"}, true},
	{"testing", []string{"internal"}, true},
}

// pure packages live on the standard library and golang.org/x alone; SASLprep, which is a table, excepted.
var pure = []string{"protocol", "admission", "reaper"}

func TestImports(t *testing.T) {
	for _, s := range sources(t, token.NewFileSet()) {
		key, allowed := rule(s.dir)
		if key == "" {
			t.Errorf("%s: no import rule for %s", s.path, s.dir)
		}
		for _, spec := range s.file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if target, ours := strings.CutPrefix(path, module+"/"); ours {
				if inside(target, "bench") && !inside(s.dir, "bench") || !s.test && !inside(target, append(allowed, key)...) {
					t.Errorf("%s: %s may not import %s", s.path, s.dir, path)
				}
				continue
			}
			foreign := strings.Contains(strings.Split(path, "/")[0], ".")
			if foreign && !s.test && inside(s.dir, pure...) && !strings.HasPrefix(path, "golang.org/x/") && path != "github.com/xdg-go/stringprep" {
				t.Errorf("%s: %s may use the standard library and golang.org/x only, not %s", s.path, s.dir, path)
			}
			for _, o := range only {
				if inside(path, o.library) && !(s.test && o.tests) && !inside(s.dir, o.dirs...) {
					t.Errorf("%s: only %v may import %s", s.path, o.dirs, path)
				}
			}
		}
	}
}

// timeless packages are told the time: reading a clock or sleeping there would take them out of the simulator's hands.
var timeless = []string{"protocol", "admission", "reaper", "backend", "engine/session", "engine/statements"}

func TestNoClockInPureCode(t *testing.T) {
	fset := token.NewFileSet()
	forbidden := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, s := range sources(t, fset) {
		if s.test || !inside(s.dir, timeless...) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "time" && slices.Contains(forbidden, sel.Sel.Name) {
					t.Errorf("%s: time.%s: time is an argument here", fset.Position(n.Pos()), sel.Sel.Name)
				}
			}
			return true
		})
	}
}

const (
	maxFileLines     = 800
	maxFunctionLines = 80
)

func TestSizes(t *testing.T) {
	fset := token.NewFileSet()
	for _, s := range sources(t, fset) {
		if s.lines > maxFileLines {
			t.Errorf("%s has %d lines, above %d: split it", s.path, s.lines, maxFileLines)
		}
		if s.test {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if ok && f.Body != nil {
				lines := fset.Position(f.End()).Line - fset.Position(f.Pos()).Line + 1
				if lines > maxFunctionLines {
					t.Errorf("%s: %s has %d lines, above %d", fset.Position(f.Pos()), f.Name.Name, lines, maxFunctionLines)
				}
			}
			return true
		})
	}
}

// TestQuietPassNames keeps the second pass of `make test` complete: it runs the tests that the race detector would
// falsify, and finds them by name.
func TestQuietPassNames(t *testing.T) {
	quiet := regexp.MustCompile(`^(Test\w*(Alloc|Memory)\w*|TestMain|Benchmark\w*)$`)
	for _, s := range sources(t, token.NewFileSet()) {
		if !s.test || !slices.ContainsFunc(s.file.Comments, func(c *ast.CommentGroup) bool {
			return strings.HasPrefix(c.List[0].Text, "//go:build") && strings.Contains(c.List[0].Text, "!race")
		}) {
			continue
		}
		for _, d := range s.file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && !quiet.MatchString(f.Name.Name) {
				t.Errorf("%s: %s is left out by the race detector's pass, so its name must hold Alloc or Memory", s.path, f.Name.Name)
			}
		}
	}
}

// topLevel is everything that may lie in the repository's root.
var topLevel = []string{
	"engine", "protocol", "admission", "backend", "reaper", "admin", "bench", "cmd", "configs", "internal", "docs",
	"go.mod", "go.sum", "Makefile", "README.md", "CHANGELOG.md", "LICENSE", ".ci", ".gitignore",
}

func TestTopLevel(t *testing.T) {
	_, paths := tracked(t)
	for _, path := range paths {
		if first, _, _ := strings.Cut(path, "/"); !slices.Contains(topLevel, first) {
			t.Errorf("%s: %s does not belong to the top level", path, first)
		}
	}
}

func TestNoUnfinishedWorkAndNoPrivatePaths(t *testing.T) {
	root, paths := tracked(t)
	// The patterns are written so that they do not match themselves.
	unfinished := regexp.MustCompile(`\b(TO[D]O|FIX[M]E|X[X]X)\b`)
	private := regexp.MustCompile(`(^|[^\w./-])/(hom[e]|roo[t]|User[s]|wor[k])/\w`)
	for _, path := range paths {
		if strings.Contains(path, "testdata/") || path == "LICENSE" || path == "go.sum" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := unfinished.FindString(line); found != "" {
				t.Errorf("%s:%d: %s: finish it or leave it out", path, i+1, found)
			}
			if found := private.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a path of somebody's machine", path, i+1, found)
			}
		}
	}
}

// anchors are those of the headings of a page.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			all[anchor(strings.TrimSpace(heading))] = true
		}
	}
	return all
}

// anchor is what a heading is called in a link.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestLocalLinksInDocuments(t *testing.T) {
	root, paths := tracked(t)
	link := regexp.MustCompile(`\]\(([^)#]*)#?([^)]*)\)`)
	for _, path := range paths {
		if !strings.HasSuffix(path, ".md") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := filepath.Join(root, path)
			switch {
			case strings.Contains(m[1], "://"), strings.HasPrefix(m[1], "mailto:"):
				continue
			case m[1] != "":
				target = filepath.Join(root, filepath.Dir(path), m[1])
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: link to %s leads nowhere", path, m[1])
			} else if m[2] != "" {
				if page, _ := os.ReadFile(target); !anchors(string(page))[m[2]] {
					t.Errorf("%s: %s has no heading for #%s", path, target, m[2])
				}
			}
		}
	}
}

// TestFilesInArchitecture: the source files that docs/architecture.md names exist, and so do the packages of its table.
func TestFilesInArchitecture(t *testing.T) {
	root, _ := tracked(t)
	text, err := os.ReadFile(filepath.Join(root, "docs/architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z_*]+\\.go)`").FindAllStringSubmatch(string(text), -1)
	if len(named) < 10 {
		t.Errorf("only %d files are named", len(named))
	}
	for _, m := range named {
		if found, err := filepath.Glob(filepath.Join(root, "engine", m[1])); err != nil || len(found) == 0 {
			t.Errorf("there is no engine/%s", m[1])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z/-]+)` \\| ").FindAllStringSubmatch(string(text), -1) {
		if s, err := os.Stat(filepath.Join(root, m[1])); err != nil || !s.IsDir() {
			t.Errorf("there is no package %s", m[1])
		}
	}
}
