package sqllex

import (
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// names are identifiers as they can be written.
var names = []string{
	"abc", "AbC", "_a$1", "été", "ÉTÉ", `"AbC"`, `"a""b"`, `" "`, `"é"`, `U&"d\0061t\+000061"`, `u&"\00E9x\\y""z"`, `U&"\D83D\DE00"`,
	`U&"d!0061!!\0061" UESCAPE '!'`, `U&"d!0061""" /* x */ UESCAPE $$!$$`, `U&"\\0061" UESCAPE E'\\'`, `U&"!+000061" UESCAPE '!' -- x`,
	`U&"a_0061" UESCAPE '_'`, `U&"a" UESCAPE '!!'`, `U&"a" UESCAPE 'a'`, `U&"a" UESCAPE '+'`, `U&"a" UESCAPE ' '`, `U&"a" UESCAPE '"'`,
	`U&"a" UESCAPE ''''`, `U&"a!" UESCAPE '!'`, `U&"a" UESCAPE ''`, `U&"a" UESCAPE 'é'`, `U&"a" UESCAPE U&'!'`, `U&"\D83D"`, `U&"\0000"`, `U&"\00g1"`, strings.Repeat("Ab", 40), `"` + strings.Repeat("é", 40) + `"`,
	`"x` + strings.Repeat("é", 40) + `"`, strings.Repeat("a", 62) + "é", `"` + strings.Repeat("😀", 16) + `"`, "/* x */ a -- y\n",
}

// TestNamesAsWithPostgreSQL: a channel's name is what PostgreSQL makes of it, or
// it is not told.
func TestNamesAsWithPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	wire := pgwire.Login(t, "tcp", s.Addr(), "user", "postgres", "database", "postgres", "client_encoding", "UTF8")
	told := 0
	for _, name := range names {
		sql := "LISTEN " + name
		ops := AppendOps(nil, []byte(sql))
		if len(ops) != 1 || ops[0].Kind != OpListen {
			t.Fatalf("%s: %v", sql, ops)
		}
		got, ok := ops[0].AppendName(nil, []byte(sql))
		if _, err := wire.Exec("UNLISTEN *"); err != nil {
			t.Fatal(err)
		}
		if _, err := wire.Exec(sql); err != nil {
			if ok {
				t.Errorf("%s: told %q, PostgreSQL says %v", sql, got, err)
			}
			continue
		}
		rows, err := wire.Exec("SELECT * FROM pg_listening_channels()")
		if err != nil || len(rows) != 1 {
			t.Fatalf("%s: %v %v", sql, rows, err)
		}
		if ok && string(got) != rows[0][0] {
			t.Errorf("%s: %q, PostgreSQL has %q", sql, got, rows[0][0])
		}
		if ok {
			told++
		}
	}
	if told < 15 {
		t.Errorf("only %d names are told", told)
	}
}

// pieces of values; not all that can be made of them is accepted.
var pieces = []string{
	"1", "-1", "+ 1.5", "1e3", "0x1F", ".5", "abc", "AbC", `"AbC"`, `"a""b"`, "on", "true", "default", "'x'", "'it''s'", "''", `'a\b'`, `'a\''`,
	`E'a\\b\'c\n\t\x41\101'`, `e'\q'`, "'a'\n'b'", "'a' -- x\n /* y */ 'b'", "'a'\n-- x\n'b'", `E'a\n'` + "\n" + `'\t'`, "$$x'y\\$$", "$q$ $$ $q$",
	`U&'\0061'`, "N'x'", "B'1'", "none", ",", ", ", "/* c */", "U&\"\\0061\"", "null", "\x0c", "select", "10 ", "1a",
}

// TestValuesAsWithPostgreSQL: what is told of a value sets the same as the value
// itself, whatever standard_conforming_strings then is.
func TestValuesAsWithPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	wire := pgwire.Login(t, "tcp", s.Addr(), "user", "postgres", "database", "postgres", "client_encoding", "UTF8")
	exec := func(sql string) ([][]string, error) {
		rows, err := wire.Exec(sql)
		if err != nil {
			return nil, err
		}
		return rows, nil
	}
	must := func(sql string) {
		t.Helper()
		if _, err := exec(sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	must("SET backslash_quote = on; SET escape_string_warning = off; SET client_min_messages = error")
	rng := rand.New(rand.NewPCG(5, 6))
	told := 0
	for i := range 2500 {
		value := pieces[rng.IntN(len(pieces))]
		for range rng.IntN(4) {
			value += []string{"", " ", ", "}[rng.IntN(3)] + pieces[rng.IntN(len(pieces))]
		}
		off := i&1 == 1
		name := []string{"a.b", "search_path", "application_name"}[rng.IntN(3)]
		sql := []byte("SET " + name + " TO " + value)
		ops := AppendOps(nil, sql)
		if len(ops) != 1 || ops[0].Kind != OpSet {
			continue
		}
		list, ok := ops[0].AppendValue(nil, sql, off)
		if !ok {
			continue
		}
		mode := map[bool]string{false: "on", true: "off"}
		must("SET standard_conforming_strings = " + mode[off])
		must("RESET " + name)
		if _, err := exec(string(sql)); err != nil {
			continue
		}
		want, err := exec("SHOW " + name)
		if err != nil {
			t.Fatal(err)
		}
		must("RESET " + name)
		must("SET standard_conforming_strings = " + mode[!off])
		must("SET " + name + " TO " + string(list))
		got, err := exec("SHOW " + name)
		if err != nil || got[0][0] != want[0][0] {
			t.Errorf("%s, told as %s: %q (%v), want %q", sql, list, got, err, want)
		}
		told++
	}
	if told < 300 {
		t.Errorf("only %d values are told", told)
	}
}
