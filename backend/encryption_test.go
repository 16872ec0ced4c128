package backend

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// pgServer is how a PostgreSQL of a test takes connections.
type pgServer struct {
	tls       bool // it has TLS
	handshake bool // which works
	clear     bool // pg_hba.conf lets in who comes in clear
	encrypted bool // and who comes over TLS
}

// connect plays the connects that lead to a login, and tells each step.
func connect(e *Encryption, s pgServer) string {
	var steps []string
	say := func(step string) { steps = append(steps, step) }
	attempt := func() error {
		secure := false
		if _, ask := e.Start(nil); ask {
			answer := "N"
			if s.tls {
				answer = "S"
			}
			reply, err := e.Answer([]byte(answer))
			if err != nil {
				return err
			}
			if reply == Handshake {
				say("handshake")
				if secure = true; !s.handshake {
					return &HandshakeError{io.EOF}
				}
			}
		}
		if secure && s.encrypted || !secure && s.clear {
			return nil
		}
		return &RefusedError{Fields: protocol.ErrorFields{Code: "28000", Message: "no pg_hba.conf entry"}}
	}
	for {
		err := attempt()
		if err == nil {
			return strings.Join(append(steps, "in"), " ")
		}
		var unable *UnableError
		if errors.As(err, &unable) {
			say("no TLS")
		} else {
			say("refused")
		}
		if !e.Again(err) {
			return strings.Join(steps, " ")
		}
		say("again")
	}
}

// The modes are libpq's: which way is tried first, and when the other one.
func TestEncryptionModes(t *testing.T) {
	f := func(mode configs.TLSMode, s pgServer, want string) {
		t.Helper()
		if got := connect(NewEncryption(mode, "tcp"), s); got != want {
			t.Errorf("%s, %+v: %s, want %s", mode, s, got, want)
		}
	}
	all := pgServer{tls: true, handshake: true, clear: true, encrypted: true}
	plain := pgServer{clear: true}
	hostssl := pgServer{tls: true, handshake: true, encrypted: true}
	hostnossl := pgServer{tls: true, handshake: true, clear: true}
	broken := pgServer{tls: true, clear: true}
	nobody := pgServer{tls: true, handshake: true}

	f(configs.TLSDisable, all, "in")
	f(configs.TLSDisable, hostssl, "refused")
	f(configs.TLSAllow, all, "in")
	f(configs.TLSAllow, hostssl, "refused again handshake in")
	f(configs.TLSAllow, nobody, "refused again handshake refused")
	f(configs.TLSAllow, pgServer{}, "refused again refused")
	f(configs.TLSPrefer, all, "handshake in")
	f(configs.TLSPrefer, plain, "in")
	f(configs.TLSPrefer, hostnossl, "handshake refused again in")
	f(configs.TLSPrefer, broken, "handshake refused again in")
	f(configs.TLSPrefer, nobody, "handshake refused again refused")
	f(configs.TLSPrefer, pgServer{}, "refused")
	for _, mode := range []configs.TLSMode{configs.TLSRequire, configs.TLSVerifyCA, configs.TLSVerifyFull} {
		f(mode, all, "handshake in")
		f(mode, hostssl, "handshake in")
		f(mode, plain, "no TLS")
		f(mode, hostnossl, "handshake refused")
		f(mode, broken, "handshake refused")
		if _, ask := NewEncryption(mode, "unix").Start(nil); ask {
			t.Errorf("%s: TLS is asked for on a Unix socket", mode)
		}
	}
}

func TestEncryptionAnswers(t *testing.T) {
	f := func(mode configs.TLSMode, answer string, want Reply, class Class, wantErr string) {
		t.Helper()
		e := NewEncryption(mode, "tcp")
		if mode == configs.TLSAllow {
			e.Again(&RefusedError{Fields: protocol.ErrorFields{Code: "28000"}})
		}
		out, ask := e.Start([]byte("x"))
		if !ask || string(out) != "x\x00\x00\x00\x08\x04\xd2\x16\x2f" {
			t.Errorf("%s begins with %q", mode, out)
		}
		reply, err := e.Answer([]byte(answer))
		if reply != want || (err == nil) != (wantErr == "") || err != nil && (!strings.Contains(err.Error(), wantErr) || ClassOf(err) != class) {
			t.Errorf("%s, %q: %d, %s fault %v, want %d, %s fault %q", mode, answer, reply, ClassOf(err), err, want, class, wantErr)
		}
	}
	for _, mode := range []configs.TLSMode{configs.TLSAllow, configs.TLSPrefer, configs.TLSRequire, configs.TLSVerifyCA, configs.TLSVerifyFull} {
		f(mode, "", Unanswered, 0, "")
		f(mode, "S", Handshake, 0, "")
		f(mode, "SE", Unanswered, HostFault, "bytes behind the answer")
		f(mode, "S\x16\x03\x01", Unanswered, HostFault, "bytes behind the answer")
		f(mode, "NR\x00\x00\x00\x08\x00\x00\x00\x00", Unanswered, HostFault, "bytes behind the answer")
		f(mode, "E\x00\x00\x00\x20SFATAL", Unanswered, HostFault, "with an error")
		f(mode, "Ecould not fork\n\x00", Unanswered, HostFault, "with an error")
		f(mode, "HTTP/1.1", Unanswered, HostFault, "not PostgreSQL's protocol")
		f(mode, "R\x00\x00\x00\x08\x00\x00\x00\x00", Unanswered, HostFault, "not PostgreSQL's protocol")
	}
	f(configs.TLSAllow, "N", InClear, 0, "")
	f(configs.TLSPrefer, "N", InClear, 0, "")
	f(configs.TLSRequire, "N", Unanswered, LoginFault, "PostgreSQL has no TLS")
}

// Only what the other way may put right leads to it.
func TestEncryptionAgain(t *testing.T) {
	f := func(mode configs.TLSMode, cause error, want bool) {
		t.Helper()
		e := NewEncryption(mode, "tcp")
		if _, ask := e.Start(nil); ask {
			if _, err := e.Answer([]byte("S")); err != nil {
				t.Fatal(err)
			}
		}
		if got := e.Again(cause); got != want {
			t.Errorf("%s, %v: again %t", mode, cause, got)
		}
		if e.Again(cause) {
			t.Errorf("%s, %v: a third attempt", mode, cause)
		}
	}
	refusal := func(code string, authenticated bool) error {
		return fmt.Errorf("host: %w", &RefusedError{Fields: protocol.ErrorFields{Code: code}, Authenticated: authenticated})
	}
	for _, mode := range []configs.TLSMode{configs.TLSAllow, configs.TLSPrefer} {
		f(mode, refusal("28000", false), true)
		f(mode, refusal("28P01", false), true)
		f(mode, refusal("28000", true), false)
		f(mode, refusal("53300", false), false)
		f(mode, refusal("57P03", false), false)
		f(mode, errors.New("connection refused"), false)
		f(mode, &UnableError{}, false)
		f(mode, violation("x"), false)
		f(mode, &HandshakeError{io.EOF}, mode == configs.TLSPrefer)
	}
	for _, mode := range []configs.TLSMode{configs.TLSDisable, configs.TLSRequire, configs.TLSVerifyCA, configs.TLSVerifyFull} {
		f(mode, refusal("28000", false), false)
		f(mode, &HandshakeError{io.EOF}, false)
	}
}

func TestHandshakeErrorClass(t *testing.T) {
	f := func(err error, want Class) {
		t.Helper()
		err = fmt.Errorf("host: %w", &HandshakeError{err})
		if a := AnswerOf(err); ClassOf(err) != want || a.Code != protocol.CodeConnectionFailure || !strings.HasPrefix(a.Message, "TLS with PostgreSQL: ") {
			t.Errorf("%v: %s fault, %+v", err, ClassOf(err), a)
		}
	}
	f(io.EOF, HostFault)
	f(&net.OpError{Op: "read", Err: errors.New("connection reset")}, HostFault)
	f(&net.OpError{Op: "remote error", Err: errors.New("tls: bad certificate")}, LoginFault)
	f(x509.UnknownAuthorityError{}, LoginFault)
	f(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "h"}, LoginFault)
}

// A refusal knows on which side of AuthenticationOk it came.
func TestRefusalBeforeAndAfterAuthentication(t *testing.T) {
	f := func(want bool, script ...msg) {
		t.Helper()
		_, err := transcript(t, NewLogin(config()), append(script, errorResponse("SFATAL", "C28000", "Mno")))
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Authenticated != want {
			t.Errorf("%+v, want authenticated %t", err, want)
		}
	}
	f(false)
	f(false, auth(authCleartext, ""))
	f(true, okay)
}
