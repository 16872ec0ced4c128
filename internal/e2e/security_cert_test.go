package e2e

import (
	"strings"
	"testing"

	"pgkinetic/internal/testcert"
)

// TestCertificates of clients instead of passwords, with and without a map of names, and as a second proof.
func TestCertificates(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "certain", "secret")
	x.Exec(t, "DROP ROLE IF EXISTS mapped; CREATE ROLE mapped LOGIN IN ROLE secured PASSWORD 'secret'")
	for file, name := range map[string]string{"certain": "certain", "staff": "Alice A. (staff)", "none": ""} {
		x.write(t, x.authority.Issue(testcert.Request{CommonName: name}), "cert-"+file)
	}
	x.write(t, testcert.Authority("authority of the tests").Issue(testcert.Request{CommonName: "certain"}), "cert-forged")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "certain", Expired: true}), "cert-expired")
	hba := tempFile(t, "hba.conf", `
hostssl all mapped all cert map=staff
hostssl all certain all cert
hostssl all both all scram-sha-256 clientcert=verify-full
`)
	ident := tempFile(t, "ident.conf", `staff "/^(.*) \(staff\)$" mapped`)
	x.role(t, "both", "secret")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "both"}), "cert-both")
	p := x.door(t, nil, "--auth.method=hba", "--auth.hba-file="+hba, "--auth.ident-file="+ident, "--tls.client-ca-file="+x.path("ca.crt"),
		"--auth.users-file="+users(t, "certain", "secret", "mapped", "secret", "both", "secret"))
	for _, f := range []struct{ user, certificate, more, want string }{
		{"certain", "certain", "", "certain"},
		{"certain", "staff", "", `certificate authentication failed for user "certain"`},
		{"certain", "none", "", `certificate authentication failed for user "certain"`},
		{"certain", "", "", "connection requires a valid client certificate"},
		{"certain", "forged", "", "psql: error"},
		{"certain", "expired", "", "psql: error"},
		{"certain", "certain", "sslmode=disable", "no pg_hba.conf entry"},
		{"mapped", "staff", "", "mapped"},
		{"mapped", "certain", "", `certificate authentication failed for user "mapped"`},
		{"both", "both", "password=secret", "both"},
		{"both", "both", "password=guessed", `password authentication failed for user "both"`},
		{"both", "certain", "password=secret", `password authentication failed for user "both"`},
		{"both", "", "password=secret", "connection requires a valid client certificate"},
		{"stranger", "certain", "", "no pg_hba.conf entry"},
	} {
		info := []string{"sslmode=verify-full user=" + f.user, "sslrootcert=" + x.path("ca.crt"), f.more}
		if f.certificate != "" {
			info = append(info, "sslcert="+x.path("cert-"+f.certificate+".crt"), "sslkey="+x.path("cert-"+f.certificate+".key"))
		}
		out, ok := psql(t, nil, conninfo(p, info...), "SELECT current_user")
		if in := f.want == f.user; ok != in || !strings.Contains(out, f.want) {
			t.Errorf("%s with certificate %q %s: %q, want %q", f.user, f.certificate, f.more, out, f.want)
		}
	}
}

// TestAU13CertificateAndNoPassword: a user who shows a certificate brings nothing that PostgreSQL's scram-sha-256 could be
// answered with. The error says so; a secret of the user's in users_file or the entry's password is the way.
func TestAU13CertificateAndNoPassword(t *testing.T) {
	t.Parallel()
	x := secured(t)
	x.role(t, "bearer", "secret")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "bearer"}), "bearer")
	p := x.door(t, []string{"name: postgres", "name: with, dbname: postgres, password: secret", "name: as, dbname: postgres, user: proxied"},
		"--auth.method=cert", "--tls.client-mode=verify-full", "--tls.client-ca-file="+x.path("ca.crt"),
		"--tls.server-cert-file="+x.path("proxied.crt"), "--tls.server-key-file="+x.proxied(t))
	for database, want := range map[string]string{
		"postgres": "and none is known", "with": "bearer", "as": "proxied", // who comes in to PostgreSQL by pg-kinetic's certificate
	} {
		info := strings.Replace(conninfo(p, "user=bearer sslmode=require", "sslcert="+x.path("bearer.crt"), "sslkey="+x.path("bearer.key")), "dbname=postgres", "dbname="+database, 1)
		out, ok := psql(t, nil, info, "SELECT current_user")
		if ok != (database != "postgres") || !strings.Contains(out, want) {
			t.Errorf("database %s: %q, want %q", database, out, want)
		}
	}
}

// proxied makes a role that comes in to PostgreSQL by certificate, and returns the file of its key.
func (x *site) proxied(t *testing.T) string {
	t.Helper()
	x.Exec(t, "DROP ROLE IF EXISTS proxied; CREATE ROLE proxied LOGIN IN ROLE secured_cert")
	x.write(t, x.authority.Issue(testcert.Request{CommonName: "proxied"}), "proxied")
	return x.path("proxied.key")
}
