package engine_test

import (
	"crypto/md5" //nolint:gosec // PostgreSQL's md5 secrets
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

const (
	wrongPassword  = "Wrong-one-of-a-client"
	serverPassword = "Pw-for-postgresql"
)

// planted are the forms in which a secret may show.
func planted(secrets map[string]string) map[string]string {
	forms := map[string]string{}
	for name, secret := range secrets {
		forms[name] = secret
		forms[name+" in hexadecimal"] = hex.EncodeToString([]byte(secret))
		forms[name+" in base64"] = strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")
		forms[name+" as a list"] = strings.Trim(fmt.Sprint([]byte(secret)), "[]")
	}
	return forms
}

// TestNoSecretIsTold: passwords of clients, right and wrong ones, secrets of every kind of users_file, of auth_query's answer
// and of PostgreSQL, proofs, private and cancel keys are in no line of the log, no answer, no view, no output of config and no
// profile.
func TestNoSecretIsTold(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	close(f.block)
	refusing := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgwire.Raw('R', []byte{0, 0, 0, 3})), pgmock.Expect('p'),
		pgmock.Send(pgmock.Error("FATAL", "28P01", "password authentication failed")))
	hash := md5.Sum([]byte(fortPassword + "md5_user")) //nolint:gosec // as above
	hashed := "md5" + hex.EncodeToString(hash[:])
	scram := scramSecret(fortPassword, 4096)
	f.write(t, "users", fmt.Sprintf("%q %q\n%q %q\n%q %q\n", "plain_user", fortPassword, "md5_user", hashed, "scram_user", scram))
	text, err := os.ReadFile(filepath.Join(f.dir, "k.yaml"))
	must(t, err)
	f.write(t, "k.yaml", strings.Replace(string(text), "databases:", fmt.Sprintf(
		"databases:\n  - {name: refused, hosts: [%q], user: server_user, password: %q}", refusing.Addr(), serverPassword), 1))
	cfg, origins, problems := configs.Load(filepath.Join(f.dir, "k.yaml"), nil, nil)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	_, err = f.Reload(cfg, origins)
	must(t, err)

	var told strings.Builder
	tell := func(s *stranger) {
		for {
			m, err := s.message()
			if err != nil {
				return
			}
			fmt.Fprintf(&told, "%c %q\n", m.Type, m.Body)
		}
	}
	secrets := map[string]string{
		"a password": fortPassword, "a wrong password": wrongPassword, "a password for PostgreSQL": serverPassword,
		"an md5 secret": hashed[3:], "a stored key": strings.Split(strings.Split(scram, "$")[2], ":")[0],
		"a server key": strings.Split(scram, ":")[2],
	}
	key, err := os.ReadFile(filepath.Join(f.dir, "server.key"))
	must(t, err)
	secrets["a private key"] = strings.Split(string(key), "\n")[1]

	for _, user := range []string{"plain_user", "scram_user", "md5_user"} {
		f.open(t, user, "sslmode=require")
	}
	for _, body := range []string{wrongPassword + "\x00", wrongPassword, wrongPassword + "\x00more\x00"} {
		for _, user := range []string{"password_user", "md5_user"} {
			s := f.stranger(t)
			s.send(pgwire.Startup(0, "user", user))
			_, err := s.message()
			must(t, err)
			s.send(pgwire.Raw('p', []byte(body)))
			tell(s)
		}
	}
	for i, database := range []string{"postgres", "asked"} {
		s := f.stranger(t)
		s.challenged(database, []string{"scram_user", "looked_up"}[i])
		proof := base64.StdEncoding.EncodeToString([]byte("Proof-of-somebody-who-is-no-user"))
		secrets["a proof"] = proof
		s.send(pgwire.Raw('p', []byte("c=biws,r="+s.nonce+",p="+proof)))
		tell(s)
	}
	for _, text := range []string{"n,,n=,r=abc" + wrongPassword + "\x00", wrongPassword, "n,,x=" + wrongPassword} {
		s := f.stranger(t)
		s.send(pgwire.Startup(0, "user", "scram_user"))
		s.asked(10)
		s.send(saslInitial("SCRAM-SHA-256", text))
		tell(s)
	}
	s := f.stranger(t)
	s.send(pgwire.Startup(0, "user", "trust_user", "database", "refused"))
	tell(s)
	in := pgwire.Dial(t, "tcp", f.address)
	if _, err := in.Login(2, "user", "trust_user", "database", "postgres"); err != nil {
		t.Fatal(err)
	}
	secrets["a cancel key"] = string(in.Key[8:])
	must(t, pgwire.Cancel("tcp", f.address, in.PID, in.Key))

	f.write(t, "users", fmt.Sprintf("%q %q\n%q \"SCRAM-SHA-256$x%s\"\n", "plain_user", fortPassword, "scram_user", wrongPassword))
	if _, err := f.Reload(cfg, origins); err == nil {
		t.Error("a broken users_file was taken")
	} else {
		told.WriteString(err.Error())
	}
	must(t, configs.Print(&told, cfg, origins))
	fmt.Fprintf(&told, "%+v %#v\n", cfg, cfg.Databases)
	fmt.Fprintf(&told, "%+v %+v %+v %+v %+v %+v\n", f.Totals(), f.Limits(), f.Routes(), f.Backpressure(), f.Metrics(), slices.Collect(f.Prepared()))
	must(t, pprof.Lookup("goroutine").WriteTo(&told, 2))
	must(t, pprof.Lookup("heap").WriteTo(&told, 1))
	all := told.String() + f.log.String()
	for name, form := range planted(secrets) {
		if at := strings.Index(all, form); at >= 0 {
			t.Errorf("%s is told: …%q…", name, all[max(at-100, 0):min(at+len(form)+20, len(all))])
		}
	}
	for _, want := range []string{"login failed", "password authentication failed for user"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not told", want)
		}
	}
}
