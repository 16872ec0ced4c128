package backend

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
	"pgkinetic/protocol/scram"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// realLogin logs in to s over TCP, where pg_hba.conf of the test counts.
func realLogin(t *testing.T, s *pgtest.Server, cfg LoginConfig) (*Login, error) {
	t.Helper()
	conn := pgwire.Dial(t, "tcp", s.Addr())
	defer conn.Close()
	l := NewLogin(cfg)
	out := l.Start(nil)
	for {
		if len(out) > 0 {
			if err := conn.Send(out); err != nil {
				t.Fatal(err)
			}
		}
		m, err := conn.Read()
		if err != nil {
			t.Fatal(err)
		}
		var step Step
		if out, step, err = l.Receive(m.Type, m.Body, nil); err != nil {
			return nil, err
		}
		if step == Compute {
			l.Compute()
			if out, _, err = l.Computed(out); err != nil {
				return nil, err
			}
		}
		if step == Done {
			return l, conn.Send(pgwire.Terminate())
		}
	}
}

func TestLoginAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	s.Exec(t, "CREATE ROLE scram LOGIN PASSWORD 's''e\\cret'")
	s.Exec(t, "CREATE ROLE empties LOGIN PASSWORD E'\\u2168\\u00ad'") // SASLprep: IX
	s.Exec(t, "SET password_encryption = md5; CREATE ROLE md5 LOGIN PASSWORD 'secret'")
	s.Exec(t, "CREATE ROLE clear LOGIN PASSWORD 'secret'")
	s.Exec(t, "CREATE ROLE full LOGIN CONNECTION LIMIT 0; CREATE ROLE nologin")
	s.HBA(
		t, "host all scram,empties all scram-sha-256", "host all md5 all md5",
		"host all clear all password", "host all gss all ident", "host all full,nologin all trust",
	)
	defer s.HBA(t)

	f := func(user, password, database, want string, class Class, params ...protocol.Param) {
		t.Helper()
		l, err := realLogin(t, s, LoginConfig{
			User: user, Credentials: knowing(user, Stored{Password: configs.Secret(password)}), Database: database, Params: params,
		})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", user, err)
				return
			}
			if l.PID() == 0 || len(l.Key()) < 4 || l.Params().Snapshot(nil).ServerMajor() < 12 {
				t.Errorf("%s: pid %d, key of %d bytes, PostgreSQL %d", user, l.PID(), len(l.Key()), l.Params().Snapshot(nil).ServerMajor())
			}
			return
		}
		if err == nil || !strings.Contains(AnswerOf(err).Code+" "+err.Error(), want) || ClassOf(err) != class {
			t.Errorf("%s: got %v, want %s, %s fault", user, err, want, class)
		}
	}
	f("postgres", "", "postgres", "", 0)
	f("scram", `s'e\cret`, "postgres", "", 0)
	f("empties", "IX", "postgres", "", 0)
	f("md5", "secret", "postgres", "", 0)
	f("clear", "secret", "postgres", "", 0)
	f("scram", "wrong", "postgres", "28P01", LoginFault)
	f("md5", "wrong", "postgres", "28P01", LoginFault)
	f("clear", "wrong", "postgres", "28P01", LoginFault)
	f("scram", "", "postgres", "none is known", LoginFault)
	f("nologin", "", "postgres", "28000", LoginFault)
	f("full", "", "postgres", "53300", LoginFault)
	f("postgres", "", "nowhere", "3D000", LoginFault)
	f("postgres", "", "postgres", "42704", LoginFault, protocol.Param{Name: "nonsense", Value: "1"})
}

// PostgreSQL's own salts have 16 bytes; secrets that were made elsewhere have
// others. Whoever knows the password gets in, and so does who has only the keys
// that a client's login has shown; a hash serves where it is what PostgreSQL has.
func TestSecretsAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	long := strings.Repeat("pässword ", 450)
	s.Exec(t, "CREATE ROLE hashed LOGIN; SET password_encryption = md5; ALTER ROLE hashed PASSWORD 'secret'")
	s.Exec(t, "CREATE ROLE long LOGIN PASSWORD '"+long+"'; CREATE ROLE salted LOGIN")
	s.HBA(t, "host all long,salted all scram-sha-256", "host all hashed all md5")
	defer s.HBA(t)
	f := func(name, user, want string, c *Credentials) {
		t.Helper()
		for range 2 {
			_, err := realLogin(t, s, LoginConfig{User: user, Database: "postgres", Credentials: c})
			if got := fmt.Sprint(err); !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
	}
	for _, size := range []int{1, 8, 16, 20, 64, 128} {
		salt := strings.Repeat("s", size)
		keys, err := scram.Derive("secret", salt, 10+size)
		if err != nil {
			t.Fatal(err)
		}
		storedKey := sha256.Sum256(keys.ClientKey[:])
		encode := base64.StdEncoding.EncodeToString
		s.Exec(t, fmt.Sprintf("ALTER ROLE salted PASSWORD 'SCRAM-SHA-256$%d:%s$%s:%s'",
			keys.Iterations, encode([]byte(salt)), encode(storedKey[:]), encode(keys.ServerKey[:])))
		learnt := knowing("salted", Stored{SCRAM: true})
		f(fmt.Sprintf("secret alone, salt of %d bytes", size), "salted", "which checks logins and makes none", learnt)
		learnt.Learn("salted", *keys)
		f(fmt.Sprintf("keys, salt of %d bytes", size), "salted", "<nil>", learnt)
		f(fmt.Sprintf("password, salt of %d bytes", size), "salted", "<nil>", knowing("salted", Stored{Password: "secret"}))
		keys.ServerKey[0]++
		learnt.Learn("salted", *keys)
		f("a server that does not know the secret", "salted", "does not know the password", learnt)
		keys.ClientKey[0]++
		learnt.Learn("salted", *keys)
		if _, err := realLogin(t, s, LoginConfig{User: "salted", Database: "postgres", Credentials: learnt}); AnswerOf(err).Code != "28P01" {
			t.Errorf("wrong keys, salt of %d bytes: %v", size, err)
		}
		f("wrong keys are forgotten", "salted", "which checks logins and makes none", learnt)
	}
	f("long password", "long", "<nil>", knowing("long", Stored{Password: configs.Secret(long)}))
	f("hash", "hashed", "<nil>", knowing("hashed", Stored{MD5: configs.Secret(md5Secret("hashed", "secret"))}))
	f("hash of another password", "hashed", "28P01", knowing("hashed", Stored{MD5: configs.Secret(md5Secret("hashed", "other"))}))
	f("hash where SCRAM is asked for", "long", "which serves the method md5 alone", knowing("long", Stored{MD5: configs.Secret(md5Secret("long", long))}))
}

func TestSessionLimitIsAHostFault(t *testing.T) {
	s := pgtest.Start(t, pgtest.Setting("max_connections", "4"), pgtest.Setting("superuser_reserved_connections", "1"))
	s.Exec(t, "CREATE ROLE u LOGIN")
	for range 3 {
		pgwire.Login(t, "tcp", s.Addr(), "user", "u", "database", "postgres")
	}
	_, err := realLogin(t, s, LoginConfig{User: "u", Database: "postgres"})
	if err == nil || AnswerOf(err).Code != protocol.CodeTooManyConnections || ClassOf(err) != HostFault {
		t.Errorf("got %v, want a host fault 53300", err)
	}
}

// What the server says about itself is what the table of reported parameters
// expects: each reported name is known, and settable exactly if SET takes it.
func TestReportedParametersAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	l, err := realLogin(t, s, LoginConfig{User: "postgres", Database: "postgres"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Params().Len() < 10 {
		t.Fatalf("only %d parameters", l.Params().Len())
	}
	if name, ok := l.Params().Get("application_name"); !ok || len(name) != 0 { // a client that sends none sees none
		t.Errorf("application_name %q", name)
	}
	l.Params().Each(func(name string, value []byte) {
		if name == "session_authorization" || name == "is_superuser" {
			return // SET changes them, yet they are the login's identity
		}
		_, err := s.Query("SELECT set_config('" + name + "', '" + string(value) + "', true)")
		if (err == nil) != Settable(name) {
			t.Errorf("%s: settable %t, PostgreSQL says %v", name, Settable(name), err)
		}
	})
}
