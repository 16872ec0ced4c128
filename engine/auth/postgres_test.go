package auth

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAnswersAsPostgreSQL gives the same messages to PostgreSQL and to an Exchange
// that has the same rules and secrets, and compares what they answer: the requests
// with their sizes, and SQLSTATE and text of a refusal.
func TestAnswersAsPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	users := map[string]Secret{"bare": {}}
	s.Exec(t, "CREATE ROLE bare LOGIN")
	s.Exec(t, "CREATE DATABASE gate")
	for name, secret := range map[string]string{
		"md5": hashMD5("pencilmd5"), "scram": stored("pencil", "0123456789abcdef", 4096),
		"salt8": stored("pencil", "01234567", 4096), "salt64": stored("pencil", strings.Repeat("salt", 16), 10),
	} {
		s.Exec(t, "CREATE ROLE "+name+" LOGIN PASSWORD '"+secret+"'")
		users[name] = parse(t, secret)
	}
	f := func(m Method, user string, c client) {
		t.Helper()
		c.user = user
		if c.password == "" {
			c.password = "pencil"
		}
		ours, theirs := c, c
		p := testPeer(false)
		p.User = user
		x := NewExchange(Decision{Method: m}, p, users[user], NewKeys())
		got := strings.ReplaceAll(run(t, x, &ours).String(), "compute ", "")
		want := runServer(t, s.Addr(), "gate", &theirs).String()
		if got != want {
			t.Errorf("%v for %s:\n got %s\nwant %s", m, user, got, want)
		}
	}
	everybody := []string{"bare", "md5", "scram", "salt8", "salt64", "missing"}
	for _, m := range []Method{Password, MD5, SCRAM} {
		s.HBA(t, "host gate all all "+m.String())
		for _, user := range everybody {
			f(m, user, client{})
			f(m, user, client{password: "eraser"})
		}
		for _, alter := range malformedPasswords {
			f(m, "md5", client{alter: alter})
			f(m, "missing", client{alter: alter})
		}
	}
	for _, alter := range malformedSASL {
		f(SCRAM, "scram", client{alter: alter})
		f(SCRAM, "missing", client{alter: alter})
	}
	s.HBA(t)
}

// message replaces the n-th message of a client.
func message(n int, typ byte, body string) func(int, byte, []byte) (byte, []byte) {
	return func(at int, t byte, was []byte) (byte, []byte) {
		if at == n {
			return typ, []byte(body)
		}
		return t, was
	}
}

// edited replaces one text by another in the n-th message.
func edited(n int, old, with string) func(int, byte, []byte) (byte, []byte) {
	return func(at int, t byte, was []byte) (byte, []byte) {
		if at == n {
			was = []byte(strings.Replace(string(was), old, with, 1))
		}
		return t, was
	}
}

func first(text string) func(int, byte, []byte) (byte, []byte) {
	return message(0, 'p', string(initial(mechanism, text)))
}

var malformedPasswords = []func(int, byte, []byte) (byte, []byte){
	message(0, 'Q', "SELECT 1\x00"), message(0, 'p', "\x00"), message(0, 'p', "two\x00texts\x00"),
}

var malformedSASL = []func(int, byte, []byte) (byte, []byte){
	message(0, 'p', ""), message(0, 'p', mechanism), message(0, 'p', mechanism+"\x00"),
	message(0, 'p', mechanism+"\x00\x00\x00\x00\x01"), message(0, 'p', mechanism+"\x00\x00\x00\x00\x00x"),
	message(0, 'p', string(initial("SCRAM-SHA-1", "n,,n=,r=abc"))),
	message(0, 'p', string(initial(mechanismPlus, "p=tls-server-end-point,,n=,r=abc"))),
	first(""), first("n"), first("n,"), first("n,,"), first("n,,n="), first("n,,n=,"), first("n,,n=,r"),
	first("x,,n=,r=abc"), first("p=tls-server-end-point,,n=,r=abc"), first("n,a=somebody,n=,r=abc"), first("n,b,n=,r=abc"),
	first("n,,m=extension,n=,r=abc"), first("n,,r=abc"), first("n,,n=,r=a\x00b"), first("n,,n=,r=a b"), first("n,,n=,r=\xff"),
	first("n,,n=,r=abc,9=no letter"), first("n,,n=,r=abc,x"), first("n,,n=,r=abc,x=extension"), first("n,,n=,r=abc,"),
	first("n,,n=,r="), first("y,,n=,r=abc"), first("n,,n=somebody else,r=abc"),
	message(1, 'p', ""), message(1, 'p', "c=biws"), message(1, 'p', "c=biws,r=abc"), message(1, 'Q', "SELECT 1\x00"),
	edited(1, "c=biws", "c=eSws"), edited(1, "c=biws", "d=biws"), edited(1, ",r=", ",r=x"), edited(1, ",p=", ",x=extension,p="),
	edited(1, ",p=", ",9=no letter,p="), edited(1, ",p=", ",p=short,p="), edited(1, ",p=", ",p="), edited(1, "=", "=\x00"),
	func(at int, typ byte, was []byte) (byte, []byte) { return typ, append(was, ",x=y"[:4*at]...) },
}
