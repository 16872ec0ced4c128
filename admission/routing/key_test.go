package routing

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestLabel(t *testing.T) {
	f := func(id Identity, want string) {
		t.Helper()
		if got := id.Label(); got != want {
			t.Errorf("%+v: %q, want %q", id, got, want)
		}
	}
	k := request("web", "192.0.2.7", ClassRead)
	f(Identity{Rule: -1, Key: k}, "db/user/web/read")
	f(Identity{Rule: -1, Key: Key{Database: "db", User: "user"}}, "db/user//default")
	f(Identity{Rule: 3, RuleID: unnamed + "client_addr=…", Key: k}, "db/user/web/read")
	f(Identity{Rule: 0, RuleID: "api"}, "api")
	f(Identity{Rule: 0, RuleID: "api", Key: Key{User: "default", Class: ClassWrite}}, "api/user=default/query_class=write")
	f(Identity{Rule: 0, RuleID: "api", Key: Key{Database: "d", Application: "w", Addr: k.Addr}}, "api/database=d/application_name=w")
	f(OverflowIdentity(Tenant{"db", "user"}), "db/user/overflow")
	f(Identity{Rule: -1, Key: Key{Database: "a/b", User: "50%", Application: "x\ny\x00\x7f"}}, "a%2Fb/50%25/x%0Ay%00%7F/default")
	f(Identity{Rule: -1, Key: Key{Database: "größe", User: "\xff\xfe", Application: "\u202eevil\u0085"}}, "größe/%FF%FE/%E2%80%AEevil%C2%85/default")
	f(Identity{Rule: 0, RuleID: "a/b"}, "a%2Fb")
	f(Identity{Rule: 0, RuleID: "api", Key: Key{Application: "x/query_class=write"}}, "api/application_name=x%2Fquery_class=write")
}

// posers are names that were chosen to look like something else.
var posers = []string{
	"", "a", "a/b", "/", "%2F", "a%2Fb", "overflow", "default", "read", "user=a", "query_class=read", "application_name=overflow",
	"api", "api/user=a", "\x00", "\n", "\xff", "%FF", "ÿ",
}

// TestLabelsDiffer: whatever clients call themselves, two routes have the same label only if they differ in their
// addresses or in the nameless rule that made them.
func TestLabelsDiffer(t *testing.T) {
	seen := map[string]Identity{}
	add := func(id Identity) {
		label := id.Label()
		id.Key.Addr = addr("")
		if other, ok := seen[label]; ok && !other.same(&id) {
			t.Fatalf("%q is %+v and %+v", label, id, other)
		}
		seen[label] = id
		if !utf8.ValidString(label) || strings.ContainsFunc(label, unicode.IsControl) {
			t.Fatalf("label %q", label)
		}
	}
	for _, database := range posers {
		for _, user := range posers {
			add(OverflowIdentity(Tenant{database, user}))
			for _, application := range posers {
				for _, class := range []Class{ClassDefault, ClassRead} {
					k := Key{Database: database, User: user, Application: application, Class: class}
					add(Identity{Rule: -1, Key: k})
					for _, name := range []string{"api", "a/b", "a", "overflow", "api/user=a", "%2F"} {
						add(Identity{RuleID: name, Key: k})
					}
				}
			}
		}
	}
}
