package configs

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inDirectory makes the files that settings of a test name, and makes their directory the working one.
func inDirectory(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"users", "hba", "ident", "crt", "key", "ca"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir("dir", 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestSecuritySettings(t *testing.T) {
	inDirectory(t)
	c, _ := mustLoad(t, write(t, "s.yaml", `
server: {proxy_protocol: required, proxy_protocol_from: [10.0.0.0/8, "2001:db8::1", unix]}
databases:
  - {name: a, auth_query: "select 1, $1", auth_user: asker, application_name_add_host: true}
  - {name: b, auth_user: other}
  - name: c
auth: {method: hba, users_file: users, hba_file: hba, ident_file: ident, auth_query: "select $1", auth_user: lookup, auth_query_cache_ms: 0}
tls:
  client_mode: verify-full
  client_cert_file: crt
  client_key_file: key
  client_ca_file: ca
  server_mode: verify-full
  server_ca_file: system
  server_cert_file: crt
  server_key_file: key
  min_version: 1.3
`), nil, nil)
	if want := (Auth{AuthHBA, "users", "hba", "ident", "select $1", "lookup", 0}); c.Auth != want {
		t.Errorf("auth %+v", c.Auth)
	}
	if want := (TLS{TLSVerifyFull, "crt", "key", "ca", TLSVerifyFull, SystemCAs, "crt", "key", TLS13}); c.TLS != want {
		t.Errorf("tls %+v", c.TLS)
	}
	prefixes, unix := c.Server.ProxySources()
	if want := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::1/128")}; c.Server.ProxyProtocol != ProxyRequired || !reflect.DeepEqual(prefixes, want) || !unix {
		t.Errorf("proxy_protocol %s from %v, %v", c.Server.ProxyProtocol, prefixes, unix)
	}
	if !c.Databases[0].ApplicationNameAddHost || c.Databases[1].ApplicationNameAddHost {
		t.Errorf("databases %+v", c.Databases)
	}
	for i, want := range [][2]string{{"select 1, $1", "asker"}, {"select $1", "other"}, {"select $1", "lookup"}} {
		if query, user := c.AuthQuery(&c.Databases[i]); query != want[0] || user != want[1] {
			t.Errorf("databases[%d]: %q by %q", i, query, user)
		}
	}
}

func TestSecurityDefaults(t *testing.T) {
	c := Default()
	if want := (Auth{Method: AuthSCRAM, QueryCacheMs: 60000}); c.Auth != want {
		t.Errorf("auth %+v", c.Auth)
	}
	if want := (TLS{ClientMode: TLSDisable, ServerMode: TLSDisable, MinVersion: TLS12}); c.TLS != want {
		t.Errorf("tls %+v", c.TLS)
	}
	if query, user := c.AuthQuery(&c.Databases[0]); query != "" || user != "" || c.Server.ProxyProtocol != ProxyOff {
		t.Errorf("%q by %q, proxy_protocol %s", query, user, c.Server.ProxyProtocol)
	}
}

func TestSecurityContradictions(t *testing.T) {
	inDirectory(t)
	f := func(text string, want ...string) {
		t.Helper()
		_, _, problems := Load(write(t, "f.yaml", text), nil, nil)
		expectProblems(t, problems, want)
	}
	// words
	f("auth: {method: scram}", `f.yaml:1:16: auth.method must be one of`)
	f("tls: {client_mode: verify}", `f.yaml:1:20: tls.client_mode must be one of`)
	f("tls: {min_version: 1.1}", `f.yaml:1:20: tls.min_version must be one of "1.2", "1.3", not "1.1"`)
	f("server: {proxy_protocol: on}", `f.yaml:1:26: server.proxy_protocol must be one of`)
	f(`server: {proxy_protocol: optional, proxy_protocol_from: ["::ffff:1.2.3.4"]}`, "f.yaml:1:26: server.proxy_protocol is optional, but", `f.yaml:1:58: server.proxy_protocol_from[0] is an IPv4 address in IPv6 form`)
	f(`server: {proxy_protocol: optional, proxy_protocol_from: [all]}`, "f.yaml:1:26: server.proxy_protocol is optional, but", `f.yaml:1:58: server.proxy_protocol_from[0] must be an address or a block`)
	f("auth: {auth_query: select 1}", "f.yaml:1:20: auth.auth_query must have $1")
	f("databases: [{name: a, auth_query: select 1}]", "f.yaml:1:35: databases[0].auth_query must have $1")
	// the PROXY protocol
	f("server: {proxy_protocol: optional}", "f.yaml:1:26: server.proxy_protocol is optional, but server.proxy_protocol_from is empty: name")
	f("server: {proxy_protocol: required, proxy_protocol_from: []}", "f.yaml:1:26: server.proxy_protocol is required, but")
	// methods
	f("auth: {method: hba}", "f.yaml:1:16: auth.method is hba, but auth.hba_file is not set: name")
	f("auth: {method: trust, hba_file: hba}", "f.yaml:1:33: auth.hba_file has rules that would hold for nobody, since auth.method is trust: set")
	f("auth: {hba_file: hba}", "f.yaml:1:18: auth.hba_file has rules that would hold for nobody")
	f("auth: {method: cert}", "f.yaml:1:16: auth.method is cert, but tls.client_mode is disable: ")
	f("auth: {method: cert}\ntls: {client_mode: require, client_cert_file: crt, client_key_file: key}", "f.yaml:1:16: auth.method is cert, but tls.client_ca_file is not set: ")
	f("auth: {method: cert}\ntls: {client_mode: allow, client_cert_file: crt, client_key_file: key, client_ca_file: ca}")
	// queries and who runs them
	f("auth: {auth_query: select $1}", "f.yaml:1:20: auth.auth_query has nobody to run it: set auth.auth_user")
	f("auth: {auth_user: u}", "f.yaml:1:19: auth.auth_user has nothing to run: set auth.auth_query")
	f("databases: [{name: a, auth_query: select $1}]", "f.yaml:1:35: databases[0].auth_query has nobody to run it: set auth_user here or auth.auth_user")
	f("databases: [{name: a, auth_user: u}]", "f.yaml:1:34: databases[0].auth_user has nothing to run: set auth_query here or auth.auth_query")
	f("databases: [{name: a, auth_user: u}]\nauth: {auth_query: select $1}")
	f("databases: [{name: a, auth_query: select $1}]\nauth: {auth_user: u}")
	f("databases: [{name: a, auth_query: select $1, auth_user: u}]")
	f("databases: [{name: a, auth_query: select $1, auth_user: u}]\nauth: {auth_user: u}", "f.yaml:2:19: auth.auth_user has nothing to run")
	f("databases: [{name: a, auth_query: select $1, auth_user: u}]\nauth: {auth_query: select $1}", "f.yaml:2:20: auth.auth_query has nobody to run it")
	// TLS
	f("tls: {client_mode: allow}", "f.yaml:1:20: tls.client_mode is allow, but tls.client_cert_file is not set: name", "f.yaml:1:20: tls.client_mode is allow, but tls.client_key_file is not set: name")
	f("tls: {client_mode: verify-ca, client_cert_file: crt, client_key_file: key}", "f.yaml:1:20: tls.client_mode is verify-ca, but tls.client_ca_file is not set")
	f("tls: {server_mode: verify-ca}", "f.yaml:1:20: tls.server_mode is verify-ca, but tls.server_ca_file is not set")
	f("tls: {server_mode: verify-full}", "f.yaml:1:20: tls.server_mode is verify-full, but tls.server_ca_file is not set")
	f("tls: {server_mode: verify-ca, server_ca_file: system}", "f.yaml:1:20: tls.server_mode must be verify-full where tls.server_ca_file is system")
	f("tls: {server_mode: require}")
	f("tls: {server_mode: require, server_cert_file: crt}", "f.yaml:1:47: tls.server_cert_file stands without its private key: set tls.server_key_file")
	f("tls: {server_mode: require, server_key_file: key}", "f.yaml:1:46: tls.server_key_file stands without its certificate: set tls.server_cert_file")
	// files
	f("auth: {method: hba, hba_file: nohba, users_file: nousers, ident_file: noident}",
		`f.yaml:1:31: auth.hba_file names "nohba", which cannot be read: no such file or directory`,
		`f.yaml:1:50: auth.users_file names "nousers", which cannot be read: no such file or directory`,
		`f.yaml:1:71: auth.ident_file names "noident", which cannot be read: no such file or directory`)
	f("tls: {client_mode: allow, client_cert_file: c, client_key_file: k, client_ca_file: a}",
		`f.yaml:1:45: tls.client_cert_file names "c", which`, `f.yaml:1:65: tls.client_key_file names "k", which`, `f.yaml:1:84: tls.client_ca_file names "a", which`)
	f("tls: {server_mode: require, server_cert_file: c, server_key_file: k, server_ca_file: a}",
		`f.yaml:1:47: tls.server_cert_file names "c", which`, `f.yaml:1:67: tls.server_key_file names "k", which`, `f.yaml:1:86: tls.server_ca_file names "a", which`)
	f("auth: {users_file: dir}", `f.yaml:1:20: auth.users_file names "dir", which cannot be read: it is a directory: name a file`)
	f("auth: {users_file: /dev/null}", `f.yaml:1:20: auth.users_file names "/dev/null", which cannot be read: it is no regular file`)
}

func TestIncomplete(t *testing.T) {
	inDirectory(t)
	f := func(text string, want ...string) {
		t.Helper()
		c, o := mustLoad(t, write(t, "i.yaml", text), nil, nil)
		expectProblems(t, Incomplete(c, o), want)
	}
	f("auth: {method: scram-sha-256}", "i.yaml:1:16: auth.method is scram-sha-256, but nothing says where the users' secrets are: set auth.users_file, or")
	f("", "default: auth.method is scram-sha-256, but nothing says")
	f("auth: {method: md5}\ndatabases: [{name: a}, {name: b}]", "i.yaml:1:16: auth.method is md5, but nothing says")
	f("auth: {method: password}\ndatabases: [{name: a, auth_query: select $1, auth_user: u}, {name: b}]", "i.yaml:2:61: databases[1] has no auth_query and auth.users_file is not set: nobody")
	f("auth: {method: password}\ndatabases: [{name: a, auth_query: select $1, auth_user: u}]")
	f("auth: {method: scram-sha-256, users_file: users}\ndatabases: [{name: a, auth_query: select $1, auth_user: u}, {name: b}]")
	f("auth: {method: scram-sha-256, auth_query: select $1, auth_user: u}")
	f("auth: {method: hba, hba_file: hba}")
	f("auth: {method: reject}")
	f("auth: {method: trust}")
}

func TestSecurityWarnings(t *testing.T) {
	inDirectory(t)
	open := "server: {listen: [\"[::1]:1\", \":6432\"]}\n"
	f := func(text string, want ...string) {
		t.Helper()
		c, o := mustLoad(t, write(t, "w.yaml", text), nil, nil)
		expectProblems(t, Warnings(c, o, 0), want)
	}
	// without effect
	f("auth: {method: trust, ident_file: ident}", "w.yaml:1:35: auth.ident_file has no effect: only rules of auth.hba_file")
	f("auth: {method: hba, hba_file: hba, ident_file: ident}")
	f("auth: {auth_query_cache_ms: 5}", "w.yaml:1:29: auth.auth_query_cache_ms has no effect: there is no auth_query")
	f("auth: {auth_query_cache_ms: 5}\ndatabases: [{name: a, auth_query: $1, auth_user: u}]")
	f("tls: {client_cert_file: crt, client_key_file: key, client_ca_file: ca}", "w.yaml:1:25: tls.client_cert_file has no effect: tls.client_mode is disable", "w.yaml:1:47: ", "w.yaml:1:68: ")
	f("tls: {server_cert_file: crt, server_key_file: key, server_ca_file: ca}", "w.yaml:1:25: tls.server_cert_file has no effect: tls.server_mode is disable", "w.yaml:1:47: ", "w.yaml:1:68: ")
	f("server: {proxy_protocol_from: [unix]}", "w.yaml:1:31: server.proxy_protocol_from has no effect: server.proxy_protocol is off")
	f("server: {proxy_protocol: optional, proxy_protocol_from: [unix]}")
	// open doors
	f(open+"auth: {method: trust}", `w.yaml:2:16: auth.method trust lets everybody who reaches ":6432" in`)
	f("auth: {method: trust}\nserver: {listen: [\"127.0.0.2:1\", \"localhost:1\", \"[::1]:1\"]}")
	f("auth: {method: trust}\nserver: {listen: [\"db.local:1\"]}", `w.yaml:1:16: auth.method trust lets everybody who reaches "db.local:1" in`)
	f(open+"auth: {method: password}", "w.yaml:2:16: auth.method password makes clients send their passwords, which tls.client_mode disable does not")
	f(open + "auth: {method: password}\ntls: {client_mode: require, client_cert_file: crt, client_key_file: key}")
	f(open + "auth: {method: md5}")
	// files that everybody can read
	for _, name := range []string{"users", "key", "crt", "hba", "pw"} {
		if err := os.WriteFile(name, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(name, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	f("auth: {method: hba, hba_file: hba, users_file: users}\ndatabases: [{name: a, password_file: pw}]\n"+
		"tls: {client_mode: allow, client_cert_file: crt, client_key_file: key, server_mode: require, server_cert_file: crt, server_key_file: key}",
		`w.yaml:1:48: auth.users_file: "users" can be read by every user of this system: `, "w.yaml:2:38: databases[0].password_file: ",
		"w.yaml:3:67: tls.client_key_file: ", "w.yaml:3:134: tls.server_key_file: ")
}

// A relative name is relative to the working directory, not to that of the settings file, for each of them.
func TestRelativeFileNames(t *testing.T) {
	inDirectory(t)
	if err := os.WriteFile("pw", []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	elsewhere := write(t, "f.yaml", "databases: [{name: a, password_file: pw}]\nauth: {users_file: users}\n")
	if c, _ := mustLoad(t, elsewhere, nil, nil); c.Databases[0].Password.Reveal() != "secret" {
		t.Error("another password")
	}
	t.Chdir(filepath.Dir(elsewhere))
	if _, _, problems := Load("f.yaml", nil, nil); len(problems) != 2 || !strings.Contains(problems[0].Message, "cannot be read") {
		t.Errorf("%v", problemLines(problems))
	}
}

func TestFiles(t *testing.T) {
	f := func(text string, want ...string) {
		t.Helper()
		dir := t.TempDir()
		secret := filepath.Join(dir, "secret")
		if err := os.WriteFile(secret, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, _ := mustLoad(t, write(t, "f.yaml", strings.ReplaceAll(text, "FILE", secret)), nil, nil)
		got := Files(c)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], secret, "FILE")
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	f("")
	f("databases: [{name: a, password_file: FILE}, {name: b}]\n", "FILE")
	f("auth: {users_file: FILE}\n", "FILE")
	f("auth: {method: hba, hba_file: FILE, ident_file: FILE}\n", "FILE", "FILE")
	f("tls: {client_mode: allow, client_cert_file: FILE, client_key_file: FILE, client_ca_file: FILE}\n", "FILE", "FILE", "FILE")
	f("tls: {server_mode: verify-full, server_ca_file: system}\n")
	f("tls: {server_mode: verify-full, server_ca_file: FILE, server_cert_file: FILE, server_key_file: FILE}\n", "FILE", "FILE", "FILE")
}
