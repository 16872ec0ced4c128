package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgkinetic/internal/testcert"
)

// securityFiles writes files that settings name.
type securityFiles struct {
	t         testing.TB
	dir       string
	authority *testcert.Certificate
}

func newSecurityFiles(t testing.TB) *securityFiles {
	return &securityFiles{t, t.TempDir(), testcert.Authority("authority")}
}

func (f *securityFiles) write(name, text string) (path string) {
	f.t.Helper()
	path = filepath.Join(f.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		f.t.Fatal(err)
	}
	return path
}

// pair writes a certificate for this machine and its key, over those of that name.
func (f *securityFiles) pair(name string) (cert, key string) {
	f.t.Helper()
	cert, key, err := f.authority.Issue(testcert.Request{Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}).Write(f.dir, name)
	if err != nil {
		f.t.Fatal(err)
	}
	return cert, key
}

// hbaSettings are settings by rules.
func hbaSettings(users, hba, ident string, tls ...string) string {
	text := fmt.Sprintf("auth:\n  method: hba\n  users_file: %q\n  hba_file: %q\n  ident_file: %q\n", users, hba, ident)
	if len(tls) > 0 {
		text += "tls:\n  " + strings.Join(tls, "\n  ") + "\n"
	}
	return text
}

// tlsWords are settings of tls: pairs of a key and a value.
func tlsWords(words ...string) (lines []string) {
	for pair := range slices.Chunk(words, 2) {
		lines = append(lines, fmt.Sprintf("%s: %q", pair[0], pair[1]))
	}
	return lines
}

func TestCheckWarnsOfLinesForNobody(t *testing.T) {
	files := newSecurityFiles(t)
	cert, key := files.pair("server")
	ca := files.write("ca", string(files.authority.PEM()))
	users := files.write("users.txt", "\"u\" \"secret\"\n")
	hba := files.write("hba.conf", "hostssl all all all scram-sha-256\nhostssl all all all cert map=m\n")
	ident, others := files.write("ident.conf", "m cn u\n"), files.write("others.conf", "n cn u\n")
	pair := tlsWords("client_mode", "allow", "client_cert_file", cert, "client_key_file", key)
	whole := append(slices.Clone(pair), tlsWords("client_ca_file", ca)...)
	f := func(text, stdout, stderr string) {
		t.Helper()
		expectRun(t, []string{"check", "-c", settings(t, text)}, nil, exitOK, stdout, stderr)
	}
	f(hbaSettings(users, hba, ident, whole...), ": valid\n", "")
	f(hbaSettings(users, hba, ident, pair...), ": valid, 1 warning(s)\n",
		hba+":2:1: warning: the line asks for a certificate that no client can show: tls.client_ca_file is not set\n")
	f(hbaSettings(users, hba, ident), ": valid, 2 warning(s)\n", hba+":1:1: warning: the hostssl line is for no client: tls.client_mode is disable\n")
	f(hbaSettings(users, hba, others, whole...), ": valid, 1 warning(s)\n", `:2:1: warning: the line lets nobody in: auth.ident_file has no line for map "m"`)
	f(fmt.Sprintf("auth: {method: hba, hba_file: %q}\n", files.write("scram.conf", "host all all all scram-sha-256\n")),
		": valid, 1 warning(s)\n", "needs auth.users_file or an auth_query")
}

// Everything that is wrong in files is told with its place, a line each, by check and by a start.
func TestProblemsOfFiles(t *testing.T) {
	files := newSecurityFiles(t)
	cert, _ := files.pair("server")
	_, otherKey := files.pair("other")
	users := files.write("users.txt", "\"a\" \"b\"\nc d\n\"hidden\" \"SCRAM-SHA-256$hunter2\"\n")
	hba := files.write("hba.conf", "host all all all scram\nhost all all 1.2.3.4/33 trust\n")
	ident := files.write("ident.conf", "m cn\n")
	path := settings(t, hbaSettings(users, hba, ident, tlsWords("client_mode", "allow", "client_cert_file", cert,
		"client_key_file", otherKey, "client_ca_file", users, "server_mode", "require", "server_ca_file", otherKey)...))
	for _, command := range []string{"check", "serve"} {
		var out, errs bytes.Buffer
		if code := run([]string{command, "-c", path}, nil, &out, &errs); code != exitFailure || out.Len() > 0 {
			t.Errorf("%s: exit %d, %q", command, code, out.String())
		}
		lines := strings.Split(strings.TrimSuffix(errs.String(), "\n"), "\n")
		for _, want := range []string{
			users + ":2:1: ", users + ":3:10: ", hba + `:1:18: unknown method "scram"`, hba + ":2:14: ", ident + ":1:5: ",
			path + ":9:20: tls.client_key_file ", path + ":10:19: tls.client_ca_file ", path + ":12:19: tls.server_ca_file ",
		} {
			at := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) })
			if at < 0 {
				t.Errorf("%s: no line begins with %q", command, want)
				continue
			}
			lines = slices.Delete(lines, at, at+1)
		}
		if len(lines) > 0 || strings.Contains(errs.String(), "hunter2") {
			t.Errorf("%s: further lines, or secrets:\n%s", command, errs.String())
		}
	}
}
