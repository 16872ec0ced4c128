package protocol

import (
	"bytes"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// renamed is the body of the error that RenameInError makes of one.
func renamed(t testing.TB, body []byte, from, to string) []byte {
	t.Helper()
	m := RenameInError([]byte("before"), body, from, to)
	m, ok := bytes.CutPrefix(m, []byte("before"))
	typ, size, err := PeekBackend(m)
	if !ok || err != nil || typ != BackendErrorResponse || size != len(m) {
		t.Fatalf("%q becomes %q: %c, size %d, %v", body, m, typ, size, err)
	}
	return m[HeaderLen:]
}

func TestRenameInError(t *testing.T) {
	f := func(code, message, want string) {
		t.Helper()
		e := ErrorFields{Severity: "ERROR", Code: code, Message: message, Detail: message, Hint: message}
		got := DecodeError(renamed(t, AppendError(nil, e)[HeaderLen:], "pgk_1", "mine"))
		e.Message, e.Detail, e.Hint = want, want, want
		if got != e {
			t.Errorf("%q becomes %+v", message, got)
		}
	}
	f("26000", `prepared statement "pgk_1" does not exist`, `prepared statement "mine" does not exist`)
	f("42P05", `prepared statement "pgk_1" already exists`, `prepared statement "mine" already exists`)
	f("08P01", `bind message supplies 2 parameters, but prepared statement "pgk_1" requires 1`,
		`bind message supplies 2 parameters, but prepared statement "mine" requires 1`)
	// What PostgreSQL's translations make of it.
	f("26000", `vorbereitete Anweisung »pgk_1« existiert nicht`, `vorbereitete Anweisung »mine« existiert nicht`)
	f("26000", "l'instruction préparée «\u00a0pgk_1\u00a0» n'existe pas", "l'instruction préparée «\u00a0mine\u00a0» n'existe pas")
	f("08P01", `バインドメッセージは2パラメータを提供しましたが、準備された文"pgk_1"では1必要でした`, `バインドメッセージは2パラメータを提供しましたが、準備された文"mine"では1必要でした`)
	f("26000", "vorbereitete Anweisung \xbbpgk_1\xab existiert nicht", "vorbereitete Anweisung \xbbmine\xab existiert nicht") // LATIN1
	// Words of which the name is a part, and the name more than once.
	f("26000", `"pgk_12" "xpgk_1" "pgk_1_" "pgk_1a" "pgk_1" pgk_1`, `"pgk_12" "xpgk_1" "pgk_1_" "pgk_1a" "mine" mine`)
	f("26000", `pgk_1pgk_1 pgk_1`, `pgk_1pgk_1 mine`)
	f("26000", ``, ``)
	// Errors in which only a user can have written it.
	f("22P02", `invalid input syntax for type integer: "pgk_1"`, `invalid input syntax for type integer: "pgk_1"`)
}

func TestRenameInErrorKeepsOtherFields(t *testing.T) {
	body := "SFEHLER\x00VERROR\x00C26000\x00Mpgk_1\x00Wpgk_1\x00Fpgk_1\x00\x00"
	if got := string(renamed(t, []byte(body), "pgk_1", "")); got != strings.Replace(body, "Mpgk_1", "M", 1) {
		t.Errorf("%q", got)
	}
	for _, malformed := range []string{"", "M", "Mpgk_1", "C26000", "C26000\x00Mpgk_1", "C26000\x00\x00Mpgk_1\x00"} {
		if got := string(renamed(t, []byte(malformed), "pgk_1", "x")); got != malformed {
			t.Errorf("%q becomes %q", malformed, got)
		}
	}
}

// TestRenamedIsAsDirect: the errors of PostgreSQL for a name of the server's
// become those for the client's name.
func TestRenamedIsAsDirect(t *testing.T) {
	server := pgtest.Start(t)
	c := pgwire.Login(t, "unix", server.SocketPath(), "user", "postgres", "database", "postgres")
	failure := func(messages ...[]byte) []byte {
		t.Helper()
		if err := c.Send(append(messages, pgwire.Sync())...); err != nil {
			t.Fatal(err)
		}
		var body []byte
		for {
			m, err := c.Read()
			if err != nil {
				t.Fatal(err)
			}
			switch m.Type {
			case BackendErrorResponse:
				body = bytes.Clone(m.Body)
			case BackendReadyForQuery:
				return body
			}
		}
	}
	const ours = "pgk_7"
	for _, client := range []string{"s", "a longer name than ours", `with "quotes"`, "straße"} {
		for what, messages := range map[string]func(name string) [][]byte{
			"unknown":   func(name string) [][]byte { return [][]byte{pgwire.Bind("", name)} },
			"described": func(name string) [][]byte { return [][]byte{pgwire.Describe('S', name)} },
			"duplicate": func(name string) [][]byte {
				return [][]byte{pgwire.Parse(name, "select 1"), pgwire.Parse(name, "select 2")}
			},
			"parameters": func(name string) [][]byte {
				return [][]byte{pgwire.Parse(name, "select $1::int"), pgwire.Bind("", name)}
			},
		} {
			direct := failure(messages(client)...)
			got := renamed(t, failure(messages(ours)...), ours, client)
			if len(direct) == 0 || !bytes.Equal(got, direct) {
				t.Errorf("%s, %s: %q, want %q", what, client, got, direct)
			}
			failure(pgwire.Close('S', client), pgwire.Close('S', ours))
		}
	}
}

func FuzzRenameInError(f *testing.F) {
	f.Add([]byte("SERROR\x00C26000\x00Mprepared statement \"pgk_1\" does not exist\x00\x00"), "pgk_1", "s")
	f.Add([]byte("C08P01\x00Mpgk_1 pgk_12\x00Dpgk_1\x00"), "pgk_1", "")
	f.Fuzz(func(t *testing.T, body []byte, from, to string) {
		if from == "" || strings.Contains(from+to, "\x00") || strings.Contains(to, from) {
			return
		}
		before, after := DecodeError(body), DecodeError(renamed(t, body, from, to))
		if before.Code != after.Code || before.Severity != after.Severity {
			t.Errorf("%+v becomes %+v", before, after)
		}
		if !namesStatement(ErrorCode(body)) && before != after {
			t.Errorf("%+v becomes %+v", before, after)
		}
		if !strings.Contains(before.Message, from) && before.Message != after.Message {
			t.Errorf("%q becomes %q", before.Message, after.Message)
		}
		if to == "" || !isWord(from) || !isWord(to) || strings.Contains(before.Message, to) {
			return
		}
		// Only the renaming has put it there.
		if back := string(appendRenamed(nil, []byte(after.Message), to, from)); back != before.Message {
			t.Errorf("%q becomes %q, and %q", before.Message, after.Message, back)
		}
	})
}

func isWord(s string) bool {
	for i := range len(s) {
		if !wordByte(s[i]) {
			return false
		}
	}
	return true
}

// FuzzHeads: a message that is divided, and put together with the same names, is
// the one that it was; with other names, only they differ.
func FuzzHeads(f *testing.F) {
	f.Add([]byte("s\x00select\x00\x00\x01\x00\x00\x00\x17"), "pgk_1")
	f.Add([]byte("p\x00s\x00\x00\x00\x00\x00"), "")
	f.Add([]byte("Sname\x00"), "n")
	f.Fuzz(func(t *testing.T, body []byte, other string) {
		if strings.Contains(other, "\x00") {
			return
		}
		if name, at, ok := ParseHead(body); ok {
			sameMessage(t, append(AppendParseHead(nil, name, len(body)-at), body[at:]...), FrontendParse, body)
			m := append(AppendParseHead(nil, other, len(body)-at), body[at:]...)
			if got, sql, ok := ParseMessage(m[HeaderLen:]); ok && (string(got) != other || !bytes.HasPrefix(body[at:], sql)) {
				t.Errorf("%q renamed to %q is %q", body, other, m)
			}
			if sql, types, ok := ParseBody(body[at:]); ok && len(sql)+1+2+len(types) != len(body)-at {
				t.Errorf("%q is divided into %q and %q", body[at:], sql, types)
			}
		}
		if portal, stmt, at, ok := BindHead(body); ok {
			sameMessage(t, append(AppendBindHead(nil, portal, stmt, len(body)-at), body[at:]...), FrontendBind, body)
			m := append(AppendBindHead(nil, portal, other, len(body)-at), body[at:]...)
			if p, s, to, ok := BindHead(m[HeaderLen:]); !ok || !bytes.Equal(p, portal) || string(s) != other || !bytes.Equal(m[HeaderLen+to:], body[at:]) {
				t.Errorf("%q renamed to %q is %q", body, other, m)
			}
		}
		if target, name, ok := DescribeTarget(body); ok {
			sameMessage(t, AppendDescribe(nil, target, name), FrontendDescribe, body)
			sameMessage(t, AppendClose(nil, target, name), FrontendClose, body)
		}
	})
}

func sameMessage(t *testing.T, m []byte, typ byte, body []byte) {
	t.Helper()
	got, size, err := PeekFrame(m)
	if err != nil || got != typ || size != len(m) || !bytes.Equal(m[HeaderLen:], body) {
		t.Errorf("%c with body %q is made anew as %q", typ, body, m)
	}
}
