package backend

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgkinetic/protocol"
)

// msg is one message of a scripted server.
type msg struct {
	typ  byte
	body string
}

func auth(code uint32, data string) msg {
	return msg{'R', string(binary.BigEndian.AppendUint32(nil, code)) + data}
}

func errorResponse(fields ...string) msg {
	return msg{'E', strings.Join(fields, "\x00") + "\x00\x00"}
}

func status(name, value string) msg { return msg{'S', name + "\x00" + value + "\x00"} }

var (
	okay    = auth(authOk, "")
	ready   = msg{'Z', "I"}
	keyData = msg{'K', "\x00\x00\x00\x2a" + "abcd"}
	notice  = msg{'N', "SWARNING\x00C01000\x00Mbeware\x00\x00"}
)

func config() LoginConfig {
	return LoginConfig{User: "u", Database: "d", Credentials: knowing("u", Stored{Password: "secret"})}
}

// knowing is what a users file or a configuration tells of user.
func knowing(user string, s Stored) *Credentials {
	c := NewCredentials(user, nil)
	c.Set(s)
	return c
}

// transcript runs a login against the script and writes one line per answer.
func transcript(t *testing.T, l *Login, script []msg) (string, error) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "> %q\n", l.Start(nil))
	for _, m := range script {
		out, step, err := l.Receive(m.typ, []byte(m.body), []byte("x"))
		if err != nil && string(out) != "x" {
			t.Errorf("%q: appended %q along with error %v", m, out, err)
		}
		if err != nil {
			return b.String(), err
		}
		if len(out) > 1 {
			fmt.Fprintf(&b, "> %q\n", out[1:])
		}
		switch step {
		case Done:
			fmt.Fprintf(&b, "done pid=%d key=%q minor=%d\n", l.PID(), l.Key(), l.Minor())
		case Compute:
			b.WriteString("compute\n")
		case More:
		}
	}
	return b.String(), nil
}

const startup = `> "\x00\x00\x00\x1b\x00\x03\x00\x00user\x00u\x00database\x00d\x00\x00"` + "\n"

func TestLoginDialogues(t *testing.T) {
	f := func(name string, cfg LoginConfig, want string, script ...msg) {
		t.Helper()
		got, err := transcript(t, NewLogin(cfg), script)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	done := `done pid=42 key="abcd" minor=0` + "\n"
	f("trust", config(), startup+done, okay, status("server_version", "15.4"), keyData, ready)
	f("trust without a password", LoginConfig{User: "u", Database: "d"}, startup+done, okay, keyData, ready)
	f("notices at any point", config(), startup+done, notice, okay, notice, keyData, notice, ready)
	f("no key", config(), startup+`done pid=0 key="" minor=0`+"\n", okay, ready)
	f("cleartext", config(), startup+`> "p\x00\x00\x00\vsecret\x00"`+"\n"+done,
		auth(authCleartext, ""), okay, keyData, ready)
	// md5(md5("secretu") + 01020304), computed with md5sum.
	f("md5", config(), startup+`> "p\x00\x00\x00(md5dffd2564502f75393b3854e1532b9fa6\x00"`+"\n"+done,
		auth(authMD5, "\x01\x02\x03\x04"), okay, keyData, ready)

	cfg := config()
	cfg.Minor = 2
	long := strings.Repeat("k", 256)
	f("3.2 with a long key", cfg,
		strings.Replace(startup, `\x03\x00\x00u`, `\x03\x00\x02u`, 1)+fmt.Sprintf("done pid=1 key=%q minor=2\n", long),
		okay, msg{'K', "\x00\x00\x00\x01" + long}, ready)
	f("3.2 negotiated down", cfg,
		strings.Replace(startup, `\x03\x00\x00u`, `\x03\x00\x02u`, 1)+done,
		msg{'v', "\x00\x03\x00\x00\x00\x00\x00\x00"}, okay, keyData, ready)

	cfg = config()
	cfg.Params = []protocol.Param{{Name: "application_name", Value: "a"}, {Name: "search_path", Value: "s"}}
	f("parameters", cfg,
		`> "\x00\x00\x00<\x00\x03\x00\x00user\x00u\x00database\x00d\x00application_name\x00a\x00search_path\x00s\x00\x00"`+"\n"+done,
		okay, keyData, ready)
}

func TestLoginReportsParameters(t *testing.T) {
	l := NewLogin(config())
	if _, err := transcript(t, l, []msg{
		okay, status("TimeZone", "UTC"), status("server_version", "16.1"), status("TimeZone", "Europe/Rome"), ready,
	}); err != nil {
		t.Fatal(err)
	}
	name, value, base := l.Params().At(0)
	if got := fmt.Sprintf("%d %s %s %s", l.Params().Len(), name, value, base); got != "2 TimeZone Europe/Rome Europe/Rome" {
		t.Errorf("recorded %s", got)
	}
}

// A login that fails says whom it concerns and what clients are told, and never
// panics, whatever the server is.
func TestLoginFaults(t *testing.T) {
	f := func(name string, cfg LoginConfig, class Class, answer string, script ...msg) {
		t.Helper()
		_, err := transcript(t, NewLogin(cfg), script)
		if err == nil {
			t.Errorf("%s: no error", name)
			return
		}
		a := AnswerOf(err)
		got := a.Code + " " + a.Message
		if a.Hint != "" {
			got += " / " + a.Hint
		}
		if got != answer || ClassOf(err) != class {
			t.Errorf("%s:\n got %s fault: %s\nwant %s fault: %s", name, ClassOf(err), got, class, answer)
		}
	}
	cfg := config()
	f("wrong password", cfg, LoginFault, "28P01 no", auth(authCleartext, ""), errorResponse("SFATAL", "C28P01", "Mno"))
	f("no database", cfg, LoginFault, "3D000 no", okay, errorResponse("SFATAL", "C3D000", "Mno"))
	f("starting", cfg, HostFault, "57P03 starting", errorResponse("SFATAL", "C57P03", "Mstarting"))
	f("server full", cfg, HostFault, "53300 PostgreSQL: sorry", errorResponse("SFATAL", "C53300", "Msorry", "RInitProcess"))
	f("role full", cfg, LoginFault, "53300 PostgreSQL: role", okay, errorResponse("SFATAL", "C53300", "Mrole", "RInitializeSessionUserId"))
	f("database full", cfg, LoginFault, "53300 PostgreSQL: db", okay, errorResponse("SFATAL", "C53300", "Mdb", "RCheckMyDatabase"))
	f("bad parameter", cfg, LoginFault, "42704 what", okay, errorResponse("SFATAL", "C42704", "Mwhat"))
	f("shutdown", cfg, HostFault, "57P01 bye", okay, errorResponse("SFATAL", "C57P01", "Mbye"))
	f("no text", cfg, LoginFault, "28000 PostgreSQL refused the login: no reason given (SQLSTATE 28000)", errorResponse("C28000"))
	f("no SQLSTATE", cfg, LoginFault, "08006 PostgreSQL refused the login: what", errorResponse("Mwhat"))
	f("odd SQLSTATE", cfg, LoginFault, "08006 PostgreSQL refused the login: what", errorResponse("C53300x", "Mwhat"))
	f("empty error", cfg, LoginFault, "08006 PostgreSQL refused the login: no reason given", msg{'E', ""})

	none := LoginConfig{User: "u", Database: "d"}
	for name, method := range map[string]msg{"password": auth(authCleartext, ""), "md5": auth(authMD5, "abcd")} {
		f("no password", none, LoginFault,
			`28000 PostgreSQL asks for a password (`+name+`) of user "u" for database "d", and none is known / `+passwordRemedy, method)
	}
	unsupported := func(method string, m msg) {
		t.Helper()
		f(method, cfg, LoginFault, `28000 PostgreSQL asks for `+method+` authentication of user "u" for database "d", `+
			"which pg-kinetic does not support / use scram-sha-256, md5, password or trust for this pooler in pg_hba.conf", m)
	}
	unsupported("GSSAPI", auth(authGSS, ""))
	unsupported("SSPI", auth(authSSPI, ""))
	unsupported("Kerberos V5", auth(authKerberosV5, ""))
	unsupported("unknown (code 99)", auth(99, ""))
	unsupported("SASL SCRAM-SHA-256-PLUS, OAUTHBEARER", auth(authSASL, "SCRAM-SHA-256-PLUS\x00OAUTHBEARER\x00\x00"))
}

func TestLoginViolations(t *testing.T) {
	f := func(name, want string, script ...msg) {
		t.Helper()
		_, err := transcript(t, NewLogin(config()), script)
		var v *ViolationError
		if !errors.As(err, &v) || !strings.Contains(v.What, want) {
			t.Errorf("%s: got %v, want a violation about %q", name, err, want)
		}
	}
	f("data before a login", `unexpected message 'D'`, msg{'D', ""})
	f("parameter before Ok", "before AuthenticationOk", status("a", "b"))
	f("ready before Ok", "before AuthenticationOk", ready)
	f("second method", "second time", auth(authCleartext, ""), auth(authMD5, "abcd"))
	f("Ok twice", "before the server proved itself", okay, okay)
	f("method after Ok", "second time", okay, auth(authCleartext, ""))
	f("short authentication", "malformed", msg{'R', "abc"})
	f("md5 salt", "salt of 3 bytes", auth(authMD5, "abc"))
	f("Ok inside SASL", "proved itself", auth(authSASL, "SCRAM-SHA-256\x00\x00"), okay)
	f("SASL continue alone", "unexpected AuthenticationSASLContinue", auth(authSASLContinue, ""))
	f("SASL final alone", "unexpected AuthenticationSASLFinal", auth(authSASLFinal, ""))
	f("in a transaction", "ReadyForQuery", okay, msg{'Z', "T"})
	f("empty ready", "ReadyForQuery", okay, msg{'Z', ""})
	f("short key", "BackendKeyData of 7", okay, msg{'K', "1234567"})
	f("huge key", "BackendKeyData of 261", okay, msg{'K', strings.Repeat("k", 261)})
	f("malformed parameter", "malformed", okay, msg{'S', "abc"})
	f("nameless parameter", "malformed", okay, status("", "b"))
	f("huge message", "of 30001 bytes", msg{'E', strings.Repeat("x", maxReportBody+1)})
	f("huge authentication", "of 2001 bytes", msg{'R', strings.Repeat("x", maxAuthBody+1)})
	f("newer than asked", "protocol 3.2", msg{'v', "\x00\x03\x00\x02\x00\x00\x00\x00"})
	f("other major", "protocol 4.0", msg{'v', "\x00\x04\x00\x00\x00\x00\x00\x00"})
	f("negotiated twice", "unexpected Negotiate", msg{'v', strings.Repeat("\x00", 8)}, msg{'v', strings.Repeat("\x00", 8)})
	f("short negotiation", "malformed Negotiate", msg{'v', "abc"})

	var many []msg
	for i := range maxParams + 1 {
		many = append(many, status(fmt.Sprintf("p%d", i), "v"))
	}
	f("too many parameters", "more than 64 parameters", append([]msg{okay}, many...)...)
	big := status("a", strings.Repeat("v", 29000))
	f("too many bytes", "65536 bytes", okay, big, status("b", big.body[2:29002]), status("c", big.body[2:29002]))
}

func TestLoginAcceptsNothingAfterItsEnd(t *testing.T) {
	l := NewLogin(config())
	if _, err := transcript(t, l, []msg{okay, ready}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Receive('Z', []byte("I"), nil); err == nil {
		t.Error("a second ReadyForQuery was accepted")
	}
	l = NewLogin(config())
	if _, err := transcript(t, l, []msg{{'E', ""}}); err == nil {
		t.Fatal("an ErrorResponse was accepted")
	}
	if _, _, err := l.Receive('R', []byte(okay.body), nil); err == nil {
		t.Error("AuthenticationOk after an error was accepted")
	}
	if _, _, err := l.Computed(nil); err == nil {
		t.Error("Computed without Compute was accepted")
	}
}

func TestUnframed(t *testing.T) {
	f := func(bytes string, class Class, want string) {
		t.Helper()
		err := Unframed([]byte(bytes))
		if ClassOf(err) != class || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s fault %v, want %s, %q", bytes, ClassOf(err), err, class, want)
		}
	}
	f("Ecould not fork new process for connection: out of memory\n\x00", HostFault, "could not fork new process for connection: out of memory (SQLSTATE 53000)")
	f("HTTP/1.1 400 Bad Request\r\n", HostFault, "not PostgreSQL's protocol")
	f("E\x00", HostFault, "not PostgreSQL's protocol")
	f("", HostFault, "not PostgreSQL's protocol")
}

func TestClassOfOtherErrors(t *testing.T) {
	err := errors.New("connection refused")
	if a := AnswerOf(err); ClassOf(err) != HostFault || a.Code != "08006" || a.Message != "connection refused" {
		t.Errorf("got %s fault, %+v", ClassOf(err), a)
	}
	wrapped := fmt.Errorf("host a: %w", &RefusedError{Fields: protocol.ErrorFields{Code: "3D000", Message: "no"}})
	if a := AnswerOf(wrapped); ClassOf(wrapped) != LoginFault || a.Code != "3D000" {
		t.Errorf("got %s fault, %+v", ClassOf(wrapped), a)
	}
}

// The body passed to Receive is the caller's buffer: nothing may be kept of it.
func TestLoginKeepsNothingOfBodies(t *testing.T) {
	l := NewLogin(config())
	l.Start(nil)
	for _, m := range []msg{okay, status("TimeZone", "UTC"), keyData, ready} {
		body := []byte(m.body)
		if _, _, err := l.Receive(m.typ, body, nil); err != nil {
			t.Fatal(err)
		}
		copy(body, bytes.Repeat([]byte{'#'}, len(body)))
	}
	if zone, _ := l.Params().Get("timezone"); string(zone) != "UTC" || string(l.Key()) != "abcd" {
		t.Errorf("got zone %q, key %q", zone, l.Key())
	}
}
