package scenarios

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestScenariosOfThisDirectory(t *testing.T) {
	all, err := All()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for i, s := range all {
		names[s.Name] = true
		if i > 0 && s.Order < all[i-1].Order {
			t.Errorf("%s comes after %s", s.Name, all[i-1].Name)
		}
	}
	for _, name := range []string{
		"simple", "extended", "prepared", "tpcb", "transaction", "think", "connect", "large", "loops", "routes", "copy-in", "copy-out",
		"slow-readers", "logins", "refusal", "isolation", "overload", "storm", "idle",
		"tls", "tls-prepared", "connect-tls", "logins-tls", "login-storm-tls", "silent", "idle-tls",
	} {
		if !names[name] {
			t.Errorf("there is no %s", name)
		}
	}
	cases, err := Cases(all, nil)
	if err != nil {
		t.Fatal(err)
	}
	if gated := slices.DeleteFunc(cases, func(c Case) bool { return !c.Gated() }); len(gated) < 4 || len(gated) > 10 {
		t.Errorf("the gate has %d cases", len(gated))
	}
}

const good = `order: 1
about: "x"
kind: pgbench
clients: [1, 8]
pgbench: {builtin: select-only, protocol: simple}
criteria:
  - {name: a, text: "t", clients: 8, of: pg-kinetic, figure: cpu, most: 1}
`

func parse(texts ...string) ([]*Scenario, error) {
	files := fstest.MapFS{}
	for i, text := range texts {
		files[fmt.Sprintf("s%d.yaml", i)] = &fstest.MapFile{Data: []byte(text)}
	}
	return read(files)
}

func TestMistakesInAScenario(t *testing.T) {
	if _, err := parse(good); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"an unknown key":       {"order: 1", "ordr: 1"},
		"no clients":           {"[1, 8]", "[]"},
		"no load":              {"builtin: select-only, ", ""},
		"an unknown protocol":  {"protocol: simple", "protocol: fast"},
		"an unknown figure":    {"figure: cpu", "figure: speed"},
		"clients that are not": {"clients: 8", "clients: 64"},
		"an unnamed target":    {"criteria:", "targets: [{of: pg-kinetic}]\ncriteria:"},
		"an unknown security":  {"criteria:", "targets: [{name: pg-kinetic, of: pg-kinetic, tls: always}]\ncriteria:"},
		"a foreign target":     {"criteria:", "targets: [{name: a, of: pg-kinetic}]\ncriteria:"},
	} {
		text := strings.Replace(good, change[0], change[1], 1)
		if text == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		if _, err := parse(text); err == nil || !strings.HasPrefix(err.Error(), "s0.yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parse(good, good); err == nil {
		t.Error("two criteria of one name were taken")
	}
}

func TestSelection(t *testing.T) {
	all, err := parse(good, strings.ReplaceAll(strings.Replace(good, "[1, 8]", "[8]", 1), "name: a", "name: b"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ selection, want string }{
		{"", "s0/1 s0/8 s1"}, {"s0", "s0/1 s0/8"}, {"s0/8", "s0/8"}, {"s1", "s1"}, {"s1,s0/1", "s0/1 s1"}, {"s1/8", "s1"},
	} {
		cases, err := Cases(all, strings.FieldsFunc(c.selection, func(r rune) bool { return r == ',' }))
		var names []string
		for _, k := range cases {
			names = append(names, k.Name())
		}
		if got := strings.Join(names, " "); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.selection, got, err, c.want)
		}
	}
	for _, bad := range []string{"s2", "s0/64"} {
		if _, err := Cases(all, []string{"s1", bad}); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if n := len(Case{all[0], 1}.Criteria()); n != 0 {
		t.Errorf("%d criteria for 1 client", n)
	}
	if n := len(Case{all[0], 8}.Criteria()); n != 1 {
		t.Errorf("%d criteria for 8 clients", n)
	}
}
