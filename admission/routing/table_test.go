package routing

import (
	"net/netip"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

func prefixes(texts ...string) (p []netip.Prefix) {
	for _, s := range texts {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func addr(s string) netip.Addr {
	if s == "" {
		return netip.Addr{}
	}
	return ClientAddr(netip.MustParseAddr(s))
}

func request(application, from string, class Class) Key {
	return Key{Database: "db", User: "user", Application: application, Addr: addr(from), Class: class}
}

func TestFirstRuleThatMatches(t *testing.T) {
	table := NewTable(Options{Rules: []Rule{
		{Name: "batch", Application: []string{"batch*", "*-cron"}},
		{Name: "reports", Application: []string{"batch-reports"}}, // never: the rule before is broader
		{Name: "office", Addrs: prefixes("10.1.0.0/16", "2001:db8::/32")},
		{Name: "local", Unix: true},
		{Name: "lab", Unix: true, Addrs: prefixes("192.0.2.7/32"), Classes: ClassWrite.Set()},
		{Name: "ddl", Classes: ClassMaintenance.Set() | ClassCopy.Set()},
		{Name: "other db", Database: []string{"other", "db?"}},
		{Name: "admin", User: []string{"adm*"}, Database: []string{"d*"}},
	}})
	f := func(k Key, want int) {
		t.Helper()
		if got := table.Identify(&k); got.Rule != want {
			t.Errorf("%+v: rule %d, want %d", k, got.Rule, want)
		}
	}
	f(request("batch-reports", "10.1.2.3", ClassRead), 0)
	f(request("nightly-cron", "", ClassRead), 0)
	f(request("cron", "10.1.2.3", ClassRead), 2)
	f(request("web", "10.2.2.3", ClassRead), -1)
	f(request("web", "2001:db8::1", ClassRead), 2)
	f(request("web", "::ffff:10.1.2.3", ClassRead), 2)
	f(request("web", "", ClassWrite), 3)
	f(request("web", "192.0.2.7", ClassWrite), 4)
	f(request("web", "192.0.2.7", ClassRead), -1)
	f(request("web", "192.0.2.7", ClassCopy), 5)
	f(request("web", "192.0.2.8", ClassMaintenance), 5)
	f(Key{Database: "other", User: "user", Addr: addr("192.0.2.8")}, 6)
	f(Key{Database: "dbx", User: "user", Addr: addr("192.0.2.8")}, -1)
	f(Key{Database: "db", User: "admin", Addr: addr("192.0.2.8")}, 7)
	f(Key{Database: "x", User: "admin", Addr: addr("192.0.2.8")}, -1)
}

func TestNetworks(t *testing.T) {
	f := func(network, client string, want bool) {
		t.Helper()
		table := NewTable(Options{Rules: []Rule{{Addrs: prefixes(network)}}})
		k := Key{Addr: addr(client)}
		if got := table.Identify(&k).Rule == 0; got != want {
			t.Errorf("%s in %s: %v", client, network, got)
		}
	}
	f("10.0.0.0/8", "10.255.0.1", true)
	f("10.0.0.1/8", "10.255.0.1", true)
	f("10.0.0.0/8", "11.0.0.1", false)
	f("10.0.0.0/8", "::ffff:10.0.0.1", true)
	f("::ffff:10.0.0.0/104", "10.9.9.9", true)
	f("::ffff:10.0.0.0/104", "11.9.9.9", false)
	f("::ffff:0.0.0.0/96", "11.9.9.9", true)
	f("0.0.0.0/0", "11.9.9.9", true)
	f("0.0.0.0/0", "::1", false)
	f("::/0", "::1", true)
	f("::/0", "11.9.9.9", false)
	f("fe80::/10", "fe80::1%eth0", true)
	f("0.0.0.0/0", "", false)
	f("::/0", "", false)
}

func TestClientAddr(t *testing.T) {
	for from, want := range map[string]string{
		"::ffff:192.0.2.1": "192.0.2.1", "192.0.2.1": "192.0.2.1", "fe80::1%lo": "fe80::1", "::ffff:192.0.2.1%x": "192.0.2.1",
	} {
		if got := addr(from); got != netip.MustParseAddr(want) {
			t.Errorf("%s gives %s", from, got)
		}
	}
	if addr("").IsValid() {
		t.Error("a Unix socket has an address")
	}
}

func TestPartsThatCount(t *testing.T) {
	k := request("web", "192.0.2.7", ClassWrite)
	f := func(o Options, want Key) {
		t.Helper()
		if got := NewTable(o).Identify(&k).Key; got != want {
			t.Errorf("%+v gives %+v, want %+v", o, got, want)
		}
	}
	f(Options{}, Key{Database: "db", User: "user"})
	f(Options{Key: AllParts}, k)
	f(Options{Key: PartApplication | PartClass}, Key{Database: "db", User: "user", Application: "web", Class: ClassWrite})
	// Without a name the ordinary key stays, with one only what keeps routes apart.
	f(Options{Key: PartAddr, Rules: []Rule{{User: []string{"user"}}}}, Key{Database: "db", User: "user", Addr: k.Addr})
	f(Options{Key: AllParts, Rules: []Rule{{Name: "x"}}}, Key{})
	f(Options{Rules: []Rule{{Name: "x", SplitBy: PartUser}}}, Key{User: "user"})
	f(Options{Rules: []Rule{{Name: "x", SplitBy: AllParts}}}, k)
	f(Options{Rules: []Rule{{Name: "x", SplitBy: PartDatabase | PartAddr}}}, Key{Database: "db", Addr: k.Addr})
}

func TestUsesClass(t *testing.T) {
	f := func(o Options, want bool) {
		t.Helper()
		if got := NewTable(o).UsesClass(); got != want {
			t.Errorf("%+v: %v", o, got)
		}
	}
	named := func(r Rule) Rule { r.Name = "x"; return r }
	f(Options{Key: AllParts}, true)
	f(Options{Key: AllParts &^ PartClass}, false)
	f(Options{Rules: []Rule{{Classes: ClassRead.Set()}}}, true)
	f(Options{Rules: []Rule{{Classes: AllClasses}}}, false)
	f(Options{Rules: []Rule{named(Rule{SplitBy: PartClass})}}, true)
	f(Options{Rules: []Rule{{SplitBy: PartClass}}}, false)
	f(Options{Key: AllParts, Rules: []Rule{named(Rule{})}}, false)
	f(Options{Key: AllParts, Rules: []Rule{named(Rule{}), {Classes: ClassRead.Set()}}}, false)
	f(Options{Key: AllParts, Rules: []Rule{named(Rule{User: []string{"a"}})}}, true)
	f(Options{Key: AllParts, Rules: []Rule{named(Rule{User: []string{"a", "*"}, Unix: true})}}, true)
	f(Options{Key: AllParts, Rules: []Rule{named(Rule{User: []string{"a", "*"}})}}, false)
}

func TestUsesClassIsTrueToIdentify(t *testing.T) {
	for seed := range uint64(300) {
		o := randomOptions(seed)
		table := NewTable(o)
		differs := false
		for _, k := range someKeys() {
			k.Class = ClassDefault
			first := table.Identify(&k)
			for c := range Class(Classes) {
				k.Class = c
				differs = differs || table.Identify(&k) != first
			}
		}
		if differs && !table.UsesClass() {
			t.Fatalf("seed %d: classes make a difference to %+v", seed, o)
		}
	}
}

// TestRuleIDs: what a rule without a name is known by depends on what it matches, not on how that is written.
func TestRuleIDs(t *testing.T) {
	id := func(r Rule) string { return NewTable(Options{Rules: []Rule{r}}).rules[0].id }
	same := func(a, b Rule) {
		t.Helper()
		if id(a) != id(b) {
			t.Errorf("%q and %q for %+v and %+v", id(a), id(b), a, b)
		}
	}
	same(Rule{}, Rule{Database: []string{"*"}, User: []string{"a", "**"}, Classes: AllClasses})
	same(Rule{User: []string{"a", "b*"}}, Rule{User: []string{"b**", "a", "a"}})
	same(Rule{Addrs: prefixes("10.0.0.0/8", "::1/128")}, Rule{Addrs: prefixes("::1/128", "10.1.2.3/8", "::ffff:10.0.0.0/104")})
	same(Rule{Name: "x", User: []string{"a"}}, Rule{Name: "x"})

	seen := map[string]Rule{}
	for _, r := range []Rule{
		{},
		{User: []string{"a"}},
		{Database: []string{"a"}},
		{Application: []string{"a"}},
		{User: []string{"a", "b"}},
		{User: []string{"a b"}},
		{User: []string{`a" "b`}},
		{User: []string{"a"}, Database: []string{"b"}},
		{User: []string{`a"] database=["b`}},
		{Addrs: prefixes("10.0.0.0/8")},
		{Addrs: prefixes("10.0.0.0/8"), Unix: true},
		{Unix: true},
		{Classes: ClassRead.Set()},
		{Classes: ClassRead.Set() | ClassWrite.Set()},
		{User: []string{"\xff"}},
		{User: []string{"\\xff"}},
		{Name: "x"},
		{Name: "user=[a]"},
	} {
		if other, ok := seen[id(r)]; ok {
			t.Errorf("%+v and %+v are both %q", r, other, id(r))
		}
		if seen[id(r)] = r; id(r) == "" || id(r) == overflowID {
			t.Errorf("%+v has the text %q of something else", r, id(r))
		}
	}
}

func TestRuleIndex(t *testing.T) {
	a, b := Rule{User: []string{"user"}}, Rule{Name: "b"}
	before := NewTable(Options{Rules: []Rule{a, b}})
	after := NewTable(Options{Rules: []Rule{{Name: "c", User: []string{"none"}}, b, a, a}})
	gone := NewTable(Options{})
	k, other := request("web", "", ClassRead), Key{User: "other"}
	f := func(id Identity, index int, inGone bool) {
		t.Helper()
		if i, ok := after.RuleIndex(id.RuleID); i != index || !ok {
			t.Errorf("%+v: %d, %v", id, i, ok)
		}
		if i, ok := gone.RuleIndex(id.RuleID); i != -1 || ok != inGone {
			t.Errorf("%+v without rules: %d, %v", id, i, ok)
		}
	}
	f(before.Identify(&k), 2, false)
	f(before.Identify(&other), 1, false)
	f(gone.Identify(&k), -1, true)
	f(OverflowIdentity(Tenant{"db", "user"}), -1, true)
}

func TestRuleNameWithNUL(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a name that could pass for a text of ours")
		}
	}()
	NewTable(Options{Rules: []Rule{{Name: overflowID}}})
}

func TestNormalize(t *testing.T) {
	plain := NewTable(Options{})
	pod := NewTable(Options{Pattern: regexp.MustCompile(`^(.*?)-[0-9a-f]{8}$`), Replace: "$1"})
	grow := NewTable(Options{Pattern: regexp.MustCompile(`a`), Replace: "äää"})
	f := func(table *Table, name, want string) {
		t.Helper()
		if got := table.Normalize(name); got != want {
			t.Errorf("%q gives %q, want %q", name, got, want)
		}
	}
	long := strings.Repeat("x", 70)
	f(plain, "", "")
	f(plain, long[:63], long[:63])
	f(plain, long, long[:63])
	f(plain, long[:62]+"ä", long[:62])
	f(plain, long[:61]+"ä", long[:61]+"ä")
	f(plain, long[:60]+"\U0001F600", long[:60])
	f(plain, long[:59]+"\U0001F600", long[:59]+"\U0001F600")
	f(plain, strings.Repeat("\x80", 70), strings.Repeat("\x80", 63))
	f(pod, "web-0123abcd", "web")
	f(pod, "web-0123abcx", "web-0123abcx")
	f(pod, long+"-0123abcd", long[:63])
	f(pod, "web-"+long+"-0123abcd", "web-"+long[:59])
	f(grow, strings.Repeat("a", 2_000), strings.Repeat("ä", 31))
	f(grow, strings.Repeat("b", 1_000_000)+"a", strings.Repeat("b", 63))
	for n := range 70 {
		if got := plain.Normalize(strings.Repeat("x", n) + strings.Repeat("€", 30)); !utf8.ValidString(got) || len(got) > 63 || len(got) < 61 {
			t.Errorf("%d: %q", n, got)
		}
	}
}
