package hba

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// loadAll loads the rules of "pg_hba.conf" and returns the databases that they
// name, in order, or the problems.
func loadAll(files map[string]string) string {
	rules, problems := LoadRules(memory(files), "pg_hba.conf", here)
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	if rules != nil {
		for _, r := range rules.rules {
			all = append(all, strings.Join(r.databases.exact, "+"))
		}
	}
	return strings.Join(all, "\n")
}

func rules(databases ...string) string {
	return "local " + strings.Join(databases, " all trust\nlocal ") + " all trust\n"
}

func TestIncludes(t *testing.T) {
	f := func(want string, text string, files ...string) {
		t.Helper()
		all := map[string]string{"pg_hba.conf": text}
		for i := 0; i < len(files); i += 2 {
			all[files[i]] = files[i+1]
		}
		if got := loadAll(all); got != want {
			t.Errorf("%s\ngives\n%s\nwant\n%s", text, got, want)
		}
	}
	f("a\nb\nc\nd", rules("a")+"include x.conf\n"+rules("d"), "x.conf", rules("b", "c"))
	f("a\nb", "include_if_exists none\n\"include_if_exists\" \"x y\"\n"+rules("b"), "x y", rules("a"))
	f("a\nb\nc", "include d/x\n"+rules("c"), "d/x", "include y\ninclude ../z", "d/y", rules("a"), "z", rules("b"))
	f("1\n2\n3\n4", "include_dir d", "d/10.conf", rules("1"), "d/2.conf", rules("2", "3"), "d/3.conf", rules("4"),
		"d/.4.conf", rules("x"), "d/.conf", rules("x"), "d/5.conf~", rules("x"), "d/6.conf/x", rules("x"))
	f("a+b+c+d+e", "local a,@l/x,e all trust", "l/x", "b\n@y # nothing else\n", "l/y", "c\td")
	f("a+b", "local @x all trust", "x", "include y", "y", "a\nb")
	f("a\na", "include x\ninclude x", "x", rules("a"))
	f("\na", "local @x all trust\n"+rules("a"), "x", "")

	f(`pg_hba.conf:1:9: cannot read "x": file does not exist`, "include x")
	f(`pg_hba.conf:1:9: cannot read "x": file does not exist`, "local a,@x all trust")
	f(`pg_hba.conf:2:13: cannot read the directory "d": file does not exist`, "\ninclude_dir d")
	f(`pg_hba.conf:1:9: cannot read "d": it is not a regular file`, "include d", "d/x", "")
	f("pg_hba.conf:1:1: include takes one name", "include")
	f("pg_hba.conf:1:1: include takes one name", "include a b")
	f("pg_hba.conf:1:1: include_dir takes one name", "include_dir a,b")
	f("pg_hba.conf:1:13: include_dir takes a name that is not empty", `include_dir " "`)
	f("x:2:8: the line ends before the users\nd/y.conf:1:1: invalid kind of connection \"z\"; one of local, host, hostssl, hostnossl, hostgssenc, hostnogssenc, or an include directive",
		"include x\ninclude_dir d", "x", "\nlocal a", "d/y.conf", "z")
	f("x:1:1: its quotes are not closed", "local @x all trust", "x", `"a`)
	f(`pg_hba.conf:1:1: the kind of connection is an empty file`, "@x a b trust", "x", "")

	f(`pg-kinetic.yaml:3:13: "pg_hba.conf" has no line, so nobody could log in`, "# nothing\n \n")
	if got := loadAll(nil); got != `pg-kinetic.yaml:3:13: cannot read "pg_hba.conf": file does not exist` {
		t.Error(got)
	}
}

func TestBounds(t *testing.T) {
	f := func(want string, files map[string]string) {
		t.Helper()
		if got := loadAll(files); got != want {
			t.Errorf("%.500s\nwant\n%s", got, want)
		}
	}
	nested := map[string]string{"pg_hba.conf": "include 1\n"}
	for i := 1; i < maxDepth; i++ {
		nested[fmt.Sprint(i)] = fmt.Sprintf("include %d\n", i+1)
	}
	nested[fmt.Sprint(maxDepth)] = rules("a")
	f("a", nested)
	nested[fmt.Sprint(maxDepth)] = "include last"
	nested["last"] = rules("a")
	f(`10:1:9: cannot read "last": files include each other more than 10 deep`, nested)

	f(`pg-kinetic.yaml:3:13: cannot read "pg_hba.conf": it is larger than 1048576 bytes`,
		map[string]string{"pg_hba.conf": rules("a") + strings.Repeat("#", maxFileBytes)})
	f("a", map[string]string{"pg_hba.conf": strings.Repeat("\n", maxFileLines-1) + rules("a")})
	f("pg_hba.conf:10001:1: the file has more than 10000 lines", map[string]string{"pg_hba.conf": strings.Repeat("\n", maxFileLines) + rules("a")})
	f("pg_hba.conf:1:200005: more than 100000 values in all", map[string]string{"pg_hba.conf": "local " + strings.Repeat("a,", maxWords) + " all trust"})

	// A file that reads itself doubles with every level, but for the bounds.
	got := loadAll(map[string]string{"pg_hba.conf": "include pg_hba.conf\ninclude pg_hba.conf\n"})
	if !strings.Contains(got, "more than 10 deep") || !strings.Contains(got, "more problems from here on are not listed") || strings.Count(got, "\n") != maxProblems {
		t.Errorf("%.500s", got)
	}
	got = loadAll(map[string]string{"pg_hba.conf": strings.Repeat("include x\n", maxFiles), "x": ""})
	if got != "pg_hba.conf:256:9: more than 256 files are included" {
		t.Errorf("%.500s", got)
	}
	got = loadAll(map[string]string{"pg_hba.conf": strings.Repeat("nonsense\n", maxFileLines)})
	if strings.Count(got, "\n") != maxProblems {
		t.Errorf("%.500s", got)
	}
}

// TestInterfacesUnknown: samehost and samenet are the only lines that need the
// machine's addresses.
func TestInterfacesUnknown(t *testing.T) {
	source := memory(map[string]string{"pg_hba.conf": "host all all samenet trust\n", "other": "host all all 10.0.0.0/8 trust\n"})
	source.Interfaces = func() ([]net.Addr, error) { return nil, errors.New("no such thing") }
	if _, problems := LoadRules(source, "pg_hba.conf", here); len(problems) != 1 ||
		problems[0].String() != "pg_hba.conf:1:14: cannot list the addresses of this machine for samenet: no such thing" {
		t.Error(problems)
	}
	if _, problems := LoadRules(source, "other", here); problems != nil {
		t.Error(problems)
	}
}

// TestSystem: the same from the disk, by absolute names and through links, and
// with this machine's addresses.
func TestSystem(t *testing.T) {
	d := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(d, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(d, "more.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("pg_hba.conf", "include "+filepath.Join(d, "x.conf")+"\ninclude_dir more.d\ninclude_if_exists none.conf\nhost c all samehost trust\n")
	write("x.conf", rules("a"))
	write("target", rules("b"))
	if err := os.Symlink("../target", filepath.Join(d, "more.d", "1.conf")); err != nil {
		t.Fatal(err)
	}
	loaded, problems := LoadRules(System, filepath.Join(d, "pg_hba.conf"), here)
	if loaded == nil || len(loaded.rules) != 3 {
		t.Fatalf("%+v %v", loaded, problems)
	}
	line := loaded.Find(&auth.Peer{Database: "b"})
	if line == nil || line.Place != (configs.Place{Source: configs.SourceFile, Name: filepath.Join(d, "more.d", "1.conf"), Line: 1, Col: 1}) {
		t.Errorf("%+v", line)
	}
	_, problems = LoadRules(System, filepath.Join(d, "none.conf"), here)
	if want := fmt.Sprintf("pg-kinetic.yaml:3:13: cannot read %q: no such file or directory", filepath.Join(d, "none.conf")); len(problems) != 1 || problems[0].String() != want {
		t.Error(problems)
	}
}
