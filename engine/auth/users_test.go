package auth

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"pgkinetic/configs"
)

var usersPlace = configs.Place{Source: configs.SourceFile, Name: "pg-kinetic.yaml", Line: 7, Col: 3}

func load(text string) (*Users, string) {
	files := fstest.MapFS{"users.txt": &fstest.MapFile{Data: []byte(text)}}
	users, problems := LoadUsers(files, "users.txt", usersPlace)
	var all []string
	for _, p := range problems {
		all = append(all, p.String())
	}
	return users, strings.Join(all, "\n")
}

const pencilSecret = "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="

func TestUsersFile(t *testing.T) {
	users, problems := load("\"alice\" \"pencil\"\n\n; \"nobody\" \"x\"\r\n" +
		"  \"bob\"\t\"md545f2603610af569b6155c45067268c6b\" \"more\" fields ; of all kinds \"\r\n" +
		"\"car\"\"ol\"  \"say \"\"friend\"\"\"\n\"d d;\" \"\"\n\"eve\" \"" + pencilSecret + "\"")
	if problems != "" {
		t.Fatal(problems)
	}
	f := func(user string, kind Kind, text string) {
		t.Helper()
		s, ok := users.Find(user)
		if !ok || s.Kind() != kind || s.Reveal() != text {
			t.Errorf("%s: %v, kind %d, text %q", user, ok, s.Kind(), s.Reveal())
		}
	}
	f("alice", PlainSecret, "pencil")
	f("bob", MD5Secret, "md545f2603610af569b6155c45067268c6b")
	f(`car"ol`, PlainSecret, `say "friend"`)
	f("d d;", NoSecret, "")
	f("eve", SCRAMSecret, "")
	for _, user := range []string{"nobody", "", "Alice", "car"} {
		if _, ok := users.Find(user); ok {
			t.Errorf("%q is known", user)
		}
	}
	if len(users.secrets) != 5 {
		t.Errorf("%d users", len(users.secrets))
	}
	var none *Users
	if _, ok := none.Find("alice"); ok || none.mostlyLegacy() {
		t.Error("no file, and somebody is known")
	}
}

func TestUsersFileProblems(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if users, got := load(text); users != nil || got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
	f(`alice "p"`, `users.txt:1:1: the user's name must stand in double quotes`)
	f("\n  'alice' 'p'", `users.txt:2:3: the user's name must stand in double quotes`)
	f(`"alice`, `users.txt:1:1: the double quote before the user's name is not closed in its line`)
	f(`"alice"`, `users.txt:1:8: the user's secret must stand in double quotes`)
	f(`"alice" p`, `users.txt:1:9: the user's secret must stand in double quotes`)
	f("\"alice\" \"p\n\"", "users.txt:1:9: the double quote before the user's secret is not closed in its line\n"+
		"users.txt:2:1: the double quote before the user's name is not closed in its line")
	f(`"" "p"`, `users.txt:1:1: an empty user name`)
	f("\"a\" \"p\"\n \"a\" \"q\"", `users.txt:2:2: user "a" is in line 1 already`)
	f(`"a" "`+strings.Repeat("x", maxSecret+1)+`"`, `users.txt:1:5: a secret of 8193 bytes (at most 8192)`)
	f("\"a\" \"p\x00\"", `users.txt:1:5: a secret with a NUL byte`)
	f(`"a" "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ=="`,
		`users.txt:1:5: a secret that begins with SCRAM-SHA-256$ must go on with iterations:salt$StoredKey:ServerKey`)
	if _, got := load(strings.Repeat("x\n", 1000)); strings.Count(got, "\n") != maxProblems-1 {
		t.Errorf("%d problems are told", strings.Count(got, "\n")+1)
	}
	if _, got := load(strings.Repeat("\n", maxUsersFile+1)); got != "pg-kinetic.yaml:7:3: cannot read the file of users: users.txt: more than 16777216 bytes" {
		t.Error(got)
	}
	if _, problems := LoadUsers(fstest.MapFS{}, "users.txt", usersPlace); len(problems) != 1 || problems[0].Place != usersPlace {
		t.Errorf("%v", problems)
	}
}

// TestMostUsersDecideHowAnUnknownOneIsAsked under the method md5.
func TestMostUsersDecideHowAnUnknownOneIsAsked(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		users, problems := load(text)
		if problems != "" {
			t.Fatal(problems)
		}
		d, _ := NewRules(Policy{Method: MD5, Users: users}).Decide(testPeer(false))
		got := run(t, NewExchange(d, testPeer(false), Secret{}, NewKeys()), &client{user: "alice", password: "p"})
		if !strings.HasPrefix(got.shape, want) || got.refused == nil {
			t.Errorf("%s, want %s", got, want)
		}
	}
	const old, newer, none = "\"%d\" \"md545f2603610af569b6155c45067268c6b\"\n", "\"%d\" \"" + pencilSecret + "\"\n", "\"%d\" \"\"\n"
	f("", "10:")
	f(fmt.Sprintf(old, 1), "5:")
	f(fmt.Sprintf(newer, 1), "10:")
	f(fmt.Sprintf(old+newer, 1, 2), "10:")
	f(fmt.Sprintf(old+old+newer+none+none, 1, 2, 3, 4, 5), "5:")
}
