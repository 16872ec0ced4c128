package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgkinetic/configs"
)

// fieldsOf gives the names of the fields that lead to a setting in configs.Config, that of the section first.
func fieldsOf(t *testing.T, o *configs.Option) (names []string) {
	t.Helper()
	at := reflect.TypeFor[configs.Config]()
	for _, key := range append(strings.Split(o.Section, "."), o.Key) {
		if at.Kind() == reflect.Slice {
			at = at.Elem()
		}
		f, ok := tagged(at, key)
		if !ok {
			t.Fatalf("%s has no field", o.Path())
		}
		at, names = f.Type, append(names, f.Name)
	}
	return names
}

// tagged is the field with a key, in an embedded struct too.
func tagged(at reflect.Type, key string) (reflect.StructField, bool) {
	for i := range at.NumField() {
		f := at.Field(i)
		if f.Tag.Get("koanf") == key {
			return f, true
		}
		if f.Anonymous {
			if f, ok := tagged(f.Type, key); ok {
				return f, true
			}
		}
	}
	return reflect.StructField{}, false
}

// selected gives the names behind a dot in a piece of source that are read there: assigned to they do not count.
func selected(n ast.Node, into map[string]bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, right := range n.Rhs {
				selected(right, into)
			}
			for _, left := range n.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok {
					selected(s.X, into)
				} else {
					selected(left, into)
				}
			}
			return false
		case *ast.SelectorExpr:
			into[n.Sel.Name] = true
		}
		return true
	})
}

// TestSettingsAreRead: no setting does nothing. The field of each is read by the program outside package configs, or by one
// of that package's functions which the program calls and which are not about settings as such. Fields of sections that are
// handed about as a whole are looked for in files that name the section too, for some have common names.
func TestSettingsAreRead(t *testing.T) {
	whole := []string{"Admin", "Log", "Reload", "Drain", "Reaper"}
	outside := map[string]bool{}           // fields, and sections with a field
	within := map[string]map[string]bool{} // by function of configs
	for _, s := range sources(t, token.NewFileSet()) {
		switch {
		case s.test || inside(s.dir, "internal", "bench"):
		case s.dir != "configs":
			names := map[string]bool{}
			selected(s.file, names)
			for name := range names {
				outside[name] = true
				for _, section := range whole {
					outside[section+"."+name] = outside[section+"."+name] || names[section]
				}
			}
		default:
			for _, d := range s.file.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Name.IsExported() {
					names := map[string]bool{}
					selected(f.Body, names)
					within[f.Name.Name] = names
				}
			}
		}
	}
	for _, judges := range []string{"Load", "Print", "Warnings", "Incomplete", "Effective"} {
		delete(within, judges)
	}
	for _, o := range configs.Options() {
		if o.Path() == "databases[].password_env" { // Load puts what it finds there into password
			continue
		}
		names := fieldsOf(t, o)
		field := names[len(names)-1]
		read := outside[field]
		if slices.Contains(whole, names[0]) {
			read = outside[names[0]+"."+field]
		}
		for function, names := range within {
			read = read || names[field] && outside[function]
		}
		if !read {
			t.Errorf("%s is read nowhere: %s does nothing", field, o.Path())
		}
	}
}

// TestSettingsInDocuments: a page that names a setting in code names one that there is.
func TestSettingsInDocuments(t *testing.T) {
	paths := map[string]bool{}
	var sections []string
	for _, o := range configs.Options() {
		path := strings.ReplaceAll(o.Path(), "[]", "")
		paths[path] = true
		sections = append(sections, strings.Split(path, ".")[0])
	}
	slices.Sort(sections)
	named := regexp.MustCompile("`(" + strings.Join(slices.Compact(sections), "|") + `)((\[\])?\.[a-z_.]+)` + "[`:]")
	root, files := tracked(t)
	found := 0
	for _, file := range files {
		if !strings.HasSuffix(file, ".md") || file == "docs/architecture.md" { // which names functions in the same way
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			name := m[1] + strings.TrimPrefix(m[2], "[]")
			if strings.HasSuffix(name, ".go") || strings.HasSuffix(name, ".md") || strings.HasSuffix(name, ".") { // a file; `log.*`
				continue
			}
			if found++; !paths[name] {
				t.Errorf("%s: there is no setting %s", file, name)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d settings were found in the documents", found)
	}
}
