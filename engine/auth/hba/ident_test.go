package hba

import (
	"slices"
	"strings"
	"testing"
)

func TestMaps(t *testing.T) {
	maps, problems := LoadMaps(memory(map[string]string{"pg_ident.conf": `
# map   certificate            user
plain   Alice                  alice
plain   "Bob B"                "bob b"
plain   carol                  carol   # twice
plain   carol                  caroline
plain   dave                   all
plain   erin                   "all"
plain   frank                  /^fr
plain   literal                a\1
mail    /^(.*)@example\.com$   \1
mail    /^(.*)@example\.com$   guest
mail    "/^(.*)@example.org$"  u_\1_\1
mail    /^admin                all
group   /^(x)?y$               \1
group   y                      later
"a b"   /.                     one
include more
`, "more": "more a a\n\"/not a pattern\" x x"}), "pg_ident.conf", here)
	if maps == nil {
		t.Fatal(problems)
	}
	f := func(name, system, user string, want bool) {
		t.Helper()
		if got := maps.Allows(name, system, user); got != want {
			t.Errorf("%s: %q as %q: %v", name, system, user, got)
		}
	}
	f("plain", "Alice", "alice", true)
	f("plain", "alice", "alice", false)
	f("plain", "Alice", "Alice", false)
	f("Plain", "Alice", "alice", false)
	f("", "Alice", "Alice", false)
	f("plain", "Bob B", "bob b", true)
	f("plain", "carol", "carol", true)
	f("plain", "carol", "caroline", true)
	f("plain", "carol", "alice", false)
	f("plain", "dave", "anybody", true)
	f("plain", "erin", "anybody", false)
	f("plain", "erin", "all", true)
	f("plain", "frank", "fritz", true)
	f("plain", "frank", "alfred", false)
	f("plain", "literal", `a\1`, true)
	f("mail", "bob@example.com", "bob", true)
	f("mail", "bob@example.com", "guest", true)
	f("mail", "bob@example.com", "bob@example.com", false)
	f("mail", "all@example.com", "alice", false) // what a group found is no keyword
	f("mail", "/a@example.com", "alice", false)
	f("mail", "/a@example.com", "/a", true)
	f("mail", "bob@exampleXcom", "bob", false)
	f("mail", "x@example.org", `u_x_\1`, true) // only the first is replaced
	f("mail", "x@example.org", "u_x_x", false)
	f("mail", "administrator", "anybody", true)
	f("mail", "bob", "bob", false)
	f("group", "xy", "x", true)
	f("group", "y", "", false)
	f("group", "y", "later", false) // the group found nothing, which ends the search
	f("a b", "anything", "one", true)
	f("a b", "", "one", false)
	f("more", "a", "a", true)
	f("/not a pattern", "x", "x", true)
	f("none", "a", "a", false)

	if empty, problems := LoadMaps(memory(map[string]string{"pg_ident.conf": "# nothing\n"}), "pg_ident.conf", here); empty == nil || empty.Allows("", "a", "a") {
		t.Error(problems)
	}
}

func TestInvalidMaps(t *testing.T) {
	f := func(line string, want ...string) {
		t.Helper()
		maps, problems := LoadMaps(memory(map[string]string{"pg_ident.conf": line + "\n"}), "pg_ident.conf", here)
		var got []string
		for _, p := range problems {
			got = append(got, p.String())
		}
		if maps != nil || !slices.EqualFunc(got, want, func(got, want string) bool {
			place, message, _ := strings.Cut(want, " ")
			return strings.HasPrefix(got, "pg_ident.conf:"+place+": ") && strings.Contains(got, message)
		}) {
			t.Errorf("%s:\n%s\nwant\n%s", line, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	f("a", "1:2 ends before the name in the certificate")
	f("a b", "1:4 ends before the user")
	f("a b c d", "1:1 more than three fields")
	f("a,b c d", "1:3 several values for the name of the map")
	f("a b,c d", "1:5 several values for the name in the certificate")
	f("a b c,d", "1:7 several values for the user")
	f("a b +c", "1:5 +c means the members")
	f("a /( c", "1:3 missing closing )")
	f("a b /(", "1:5 missing closing )")
	f(`a /b x\1`, "1:6 refers to a group")
	f(`a /(?:b) \1`, "1:10 refers to a group")
	f(`a /\bb /\Bc`, "1:3 backspace", "1:8 backspace")
	f(`a "b c`, "1:3 quotes are not closed")
	f("include none", "1:9 file does not exist")
}
