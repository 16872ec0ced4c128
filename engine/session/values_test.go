package session

import (
	"strings"
	"testing"
)

func TestApplicationName(t *testing.T) {
	f := func(value string, major int, want string) {
		t.Helper()
		if got := ApplicationName(value, major); got != want {
			t.Errorf("%q for PostgreSQL %d: %q, want %q", value, major, got, want)
		}
	}
	f("", 15, "")
	f("my app ~", 15, "my app ~")
	f("café", 15, "caf??")
	f("café", 16, `caf\xc3\xa9`)
	f("a\tb\x7f", 15, "a?b?")
	f("a\tb\x7f", 18, `a\x09b\x7f`)
	f(strings.Repeat("x", 64), 15, strings.Repeat("x", 63))
	f(strings.Repeat("é", 40), 15, strings.Repeat("?", 62))
	f(strings.Repeat("\xff", 70), 15, strings.Repeat("?", 63))
	f(strings.Repeat("é", 10), 16, strings.Repeat(`\xc3\xa9`, 7)+`\xc3\xa`)
}

func TestEncodingName(t *testing.T) {
	f := func(name, want string, wantKnown bool) {
		t.Helper()
		if got, known := EncodingName(name); got != want || known != wantKnown {
			t.Errorf("%q: %q %t, want %q %t", name, got, known, want, wantKnown)
		}
	}
	f("utf-8", "UTF8", true)
	f("Unicode", "UTF8", true)
	f(" iso 8859/1 ", "LATIN1", true)
	f("WINDOWS-1252", "WIN1252", true)
	f("sql_ascii", "SQL_ASCII", true)
	f("utf9", "", false)
	f("", "", false)
	f("é", "", false)
	f(strings.Repeat("a", 64), "", false)
	f("utf8"+strings.Repeat("-", 100), "UTF8", true)
}

func TestJudgeEncoding(t *testing.T) {
	f := func(value, server, want string, wantSure bool) {
		t.Helper()
		got, sure, err := judgeEncoding(value, server)
		if err != nil || sure != wantSure || got != want {
			t.Errorf("%s for a %s database: %q %t %v, want %q %t", value, server, got, sure, err, want, wantSure)
		}
	}
	f("utf-8", "UTF8", "UTF8", true)
	f("UNICODE", "UTF8", "UNICODE", true)
	f("unicode", "UTF8", "UTF8", true)
	f("latin-1", "UTF8", "LATIN1", true)
	f("utf8", "LATIN1", "UTF8", true)
	f("sjis", "SQL_ASCII", "SJIS", true)
	f("sqlascii", "EUC_JP", "SQL_ASCII", true)
	f("sjis", "EUC_JP", "SJIS", false)
	f("mule internal", "UTF8", "MULE_INTERNAL", false)
	f("utf8", "", "UTF8", false)
	if _, _, err := judgeEncoding("foo", "UTF8"); err == nil ||
		err.Error() != `invalid value for parameter "client_encoding": "foo" (SQLSTATE 22023)` {
		t.Errorf("unknown encoding: %v", err)
	}
}

func TestStatements(t *testing.T) {
	f := func(name, value, wantSet, wantReset string) {
		t.Helper()
		if got := string(appendSet(nil, name, value)); got != wantSet {
			t.Errorf("set: %s, want %s", got, wantSet)
		}
		if got := string(appendReset(nil, name)); got != wantReset {
			t.Errorf("reset: %s, want %s", got, wantReset)
		}
	}
	f("timezone", "UTC", `SET "timezone"=E'UTC';`, `RESET "timezone";`)
	f("a.b", `it's a \`, `SET "a"."b"=E'it''s a \\';`, `RESET "a"."b";`)
	f("a.b", "é\n\x00", `SET "a"."b"=E'\xc3\xa9\x0a\x00';`, `RESET "a"."b";`)
	f("search_path", `"$user", public`, `SELECT pg_catalog.set_config(E'search_path',E'"$user", public',false);`, `RESET "search_path";`)
	f(`a"b`, "x", `SELECT pg_catalog.set_config(E'a"b',E'x',false);`, `SELECT pg_catalog.set_config(E'a"b',NULL,false);`)
	long := strings.Repeat("n", 64)
	f(long, "x", `SELECT pg_catalog.set_config(E'`+long+`',E'x',false);`, `SELECT pg_catalog.set_config(E'`+long+`',NULL,false);`)
	for _, name := range []string{"", ".", "a.", ".a", "a..b", "a b", "é"} {
		if plainName(name) {
			t.Errorf("%q can be named by SET", name)
		}
	}
}

// Whatever a client sends as name and value stays inside the literals: the text
// is ASCII, and outside of them there is nothing of it.
func FuzzStatements(f *testing.F) {
	f.Add("timezone", "UTC")
	f.Add(`a"b`, `';DROP TABLE x;--\`)
	f.Add("search_path", "\xbf'; --")
	f.Fuzz(func(t *testing.T, name, value string) {
		for _, sql := range []string{string(appendSet(nil, name, value)), string(appendReset(nil, name))} {
			var outside strings.Builder
			quoted := false
			for i := 0; i < len(sql); i++ {
				c := sql[i]
				switch {
				case c < ' ' || c > '~':
					t.Fatalf("byte %q in %q", c, sql)
				case quoted && c == '\\':
					i++
				case c == '\'':
					quoted = !quoted
				case !quoted:
					outside.WriteByte(c)
				}
			}
			rest := outside.String()
			if plainName(name) {
				rest = strings.ReplaceAll(rest, string(appendIdentifier(nil, name)), `""`)
			}
			switch rest {
			case `SET ""=E;`, `RESET "";`, `SELECT pg_catalog.set_config(E,E,false);`, `SELECT pg_catalog.set_config(E,NULL,false);`:
			default:
				t.Fatalf("%q, %q: %q outside of literals in %q", name, value, rest, sql)
			}
		}
	})
}
