package web

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgkinetic/admin/admintest"
)

// TestPathsInDocument: the table of docs/operations.md has the lists that there are, and paths that are answered; and every
// path of the page "/" is in it.
func TestPathsInDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]bool{}
	var lists []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(/[^`]*)` \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		if m[1] != "/api/v1/NAME" {
			paths[m[1]] = true
			continue
		}
		_, names, _ := strings.Cut(m[2], ": ")
		if lists = strings.Split(names, ", "); !slices.Equal(lists, listNames) {
			t.Errorf("the page has the lists %v, the code %v", lists, listNames)
		}
	}
	for _, name := range lists {
		paths["/api/v1/"+name] = true
	}
	if len(paths) < 20 {
		t.Errorf("the page has %d paths", len(paths))
	}
	s := server(t, &admintest.Control{Rows: 1})
	s.SetPProf(true)
	for path := range paths {
		if a := ask(t, s, "GET", path); a.StatusCode == http.StatusNotFound {
			t.Errorf("%s is not there", path)
		}
		if a := ask(t, s, "POST", path); a.StatusCode != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, a.StatusCode)
		}
	}
	for _, path := range strings.Fields(body(t, ask(t, s, "GET", "/"))) {
		if strings.HasPrefix(path, "/") && !paths[path] {
			t.Errorf("the page does not have %s", path)
		}
	}
}
