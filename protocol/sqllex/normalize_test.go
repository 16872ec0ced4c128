package sqllex

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestNormalized(t *testing.T) {
	f := func(sql, want string) {
		t.Helper()
		if got := string(AppendNormalized(nil, []byte(sql), false, 1000)); got != want {
			t.Errorf("%s:\n%s, want\n%s", sql, got, want)
		}
	}
	f("select 1", "select ?")
	f("SELECT  a,\n\tb FROM t /* secret */ WHERE x='it''s' -- secret\n AND y = $1", "SELECT a, b FROM t WHERE x=? AND y = $1")
	f("select e'a\\'b', E'c' , u&'d' uescape '!', $tag$ x $tag$, b'101', x'ff', n", "select ?, … uescape ?, …, b?, x?, n")
	f("insert into t values (1, 2,3 , 'x'), (4, now(), 5)", "insert into t values (?, …), (?, now(), ?)")
	f(`select "Column 1", u&"d\0061t" from t1`, `select "Column 1", u&"d\0061t" from t1`)
	f("select 1.5e10, 0xFF, 1_000, .5, -7", "select ?, …, -?")
	f("alter role r password 'secret", "alter role r password ?")
	f("select $x$secret", "select ?")
	f("select $x$ secret $y$ more", "select ?")
	f("select 'a' 'b'", "select ? ?")
	f("select 'a'\n'secret'", "select ?")
	f("/* only */", "")
	f("", "")
	f("select $1,$12, 3, $4", "select $1,$12, ?, $4")
	f("select 12secret", "select ?")
	f("select 1$$ a secret $$", "select ?")
	f("select 1, 2x$$ secret 'b$$ secret ' c", "select ?, …")
	f(`select '\', secret`, "select ?, secret")
	if got := string(AppendNormalized(nil, []byte(`select 'a\' secret', b`), true, 1000)); got != "select ?, b" {
		t.Errorf("with escapes: %s", got)
	}
}

// Whatever the text, what is told is short, and valid if the text is.
func TestNormalizedIsBounded(t *testing.T) {
	for _, sql := range []string{strings.Repeat("ä", 300), strings.Repeat("x ", 300), strings.Repeat("1,", 300), strings.Repeat("(1)", 300)} {
		for most := 3; most < 40; most++ {
			got := AppendNormalized([]byte("before"), []byte(sql), false, most)
			if len(got) > len("before")+most || !utf8.Valid(got) || !strings.HasPrefix(string(got), "before") {
				t.Fatalf("%q, at most %d", got, most)
			}
		}
	}
}

// A secret in a constant is never told, wherever the text is cut.
func FuzzNormalized(f *testing.F) {
	f.Add("select 'hunter2'", 10, false)
	f.Add("select $a$ ' $a$, e'\\'", 3, true)
	f.Fuzz(func(t *testing.T, sql string, cut int, escapes bool) {
		const secret = "hunter2"
		if strings.Contains(sql, secret) || strings.ContainsAny(sql, "\\") {
			return
		}
		for _, constant := range []string{"'x" + secret + "'", "$q$" + secret + "$q$", "e'" + secret + "'"} {
			whole := "select " + constant + " "
			if cut > 0 && cut < len(constant)-1 {
				whole = whole[:len(whole)-cut]
			} else {
				whole += sql
			}
			got := AppendNormalized(nil, []byte(whole), escapes, 200)
			if strings.Contains(string(got), secret) || len(got) > 200 {
				t.Fatalf("%q gives %q", whole, got)
			}
		}
	})
}
