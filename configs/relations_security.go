package configs

import (
	"errors"
	"os"
	"strconv"
)

// Rules between the settings of logins and of TLS.

// security tells what of auth, tls and the PROXY protocol contradicts itself or cannot be read.
func (l *loader) security(c *Config) {
	l.login(c)
	l.authQueries(c)
	l.clientTLS(&c.TLS)
	l.serverTLS(&c.TLS)
	if s := &c.Server; s.ProxyProtocol != ProxyOff && len(s.ProxyProtocolFrom) == 0 {
		l.problem("server.proxy_protocol", "is "+string(s.ProxyProtocol)+", but server.proxy_protocol_from is empty: name the proxies whose headers are believed")
	}
	for _, f := range files(c) {
		if f.path == "" {
			continue
		}
		if err := checkReadable(f.path); err != nil {
			l.problem(f.setting, "names "+strconv.Quote(f.path)+", which cannot be read: "+err.Error())
		}
	}
}

func (l *loader) login(c *Config) {
	const method = "auth.method"
	a := &c.Auth
	switch {
	case a.Method == AuthHBA && a.HBAFile == "":
		l.problem(method, "is hba, but auth.hba_file is not set: name the file of rules")
	case a.Method != AuthHBA && a.HBAFile != "":
		l.problem("auth.hba_file", "has rules that would hold for nobody, since auth.method is "+string(a.Method)+": set auth.method to hba, or leave the file out")
	case a.Method == AuthCert && c.TLS.ClientMode == TLSDisable:
		l.problem(method, "is cert, but tls.client_mode is disable: clients show certificates over TLS alone; set it to verify-full")
	case a.Method == AuthCert && c.TLS.ClientCAFile == "":
		l.problem(method, "is cert, but tls.client_ca_file is not set: name the authorities whose certificates are good")
	}
}

// authQueries makes sure that each query has a user that runs it, and each such user a query.
func (l *loader) authQueries(c *Config) {
	const query, user = ".auth_query", ".auth_user"
	asked, asks := false, false // auth's own user is needed by an entry; auth's own query by one
	for i := range c.Databases {
		db, path := &c.Databases[i], entryAt(sectionDatabases, i)
		asked = asked || db.AuthUser == "" && db.AuthQuery != ""
		asks = asks || db.AuthUser != "" && db.AuthQuery == ""
		switch {
		case db.AuthQuery != "" && db.AuthUser == "" && c.Auth.User == "":
			l.problem(path+query, "has nobody to run it: set auth_user here or auth.auth_user")
		case db.AuthUser != "" && db.AuthQuery == "" && c.Auth.Query == "":
			l.problem(path+user, "has nothing to run: set auth_query here or auth.auth_query")
		}
	}
	switch {
	case c.Auth.Query != "" && c.Auth.User == "" && !asks:
		l.problem(sectionAuth+query, "has nobody to run it: set auth.auth_user")
	case c.Auth.User != "" && c.Auth.Query == "" && !asked:
		l.problem(sectionAuth+user, "has nothing to run: set auth.auth_query")
	}
}

func (l *loader) clientTLS(t *TLS) {
	const mode = "tls.client_mode"
	if t.ClientMode == TLSDisable {
		return
	}
	is := "is " + string(t.ClientMode) + ", but "
	if t.ClientCertFile == "" {
		l.problem(mode, is+"tls.client_cert_file is not set: name the certificate to show to clients")
	}
	if t.ClientKeyFile == "" {
		l.problem(mode, is+"tls.client_key_file is not set: name the private key of tls.client_cert_file")
	}
	if t.ClientMode.Verifies() && t.ClientCAFile == "" {
		l.problem(mode, is+"tls.client_ca_file is not set: name the authorities whose certificates of clients are good")
	}
}

func (l *loader) serverTLS(t *TLS) {
	const mode = "tls.server_mode"
	switch {
	case t.ServerMode.Verifies() && t.ServerCAFile == "":
		l.problem(mode, "is "+string(t.ServerMode)+", but tls.server_ca_file is not set: name the authorities whose certificates of PostgreSQL are good, or system")
	case t.ServerCAFile == SystemCAs && t.ServerMode != TLSVerifyFull && t.ServerMode != TLSDisable:
		l.problem(mode, "must be verify-full where tls.server_ca_file is system: anybody can have a certificate that the system trusts, for another name")
	}
	if t.ServerCertFile != "" && t.ServerKeyFile == "" {
		l.problem("tls.server_cert_file", "stands without its private key: set tls.server_key_file")
	}
	if t.ServerKeyFile != "" && t.ServerCertFile == "" {
		l.problem("tls.server_key_file", "stands without its certificate: set tls.server_cert_file")
	}
}

// namedFile is a file that a setting names; path may be empty.
type namedFile struct {
	setting, path string
	secret        bool // who can read it can log in as somebody
}

// files returns the files that are read after Load.
func files(c *Config) []namedFile {
	named := []namedFile{
		{"auth.users_file", c.Auth.UsersFile, true},
		{"auth.hba_file", c.Auth.HBAFile, false},
		{"auth.ident_file", c.Auth.IdentFile, false},
		{"tls.client_cert_file", c.TLS.ClientCertFile, false},
		{"tls.client_key_file", c.TLS.ClientKeyFile, true},
		{"tls.client_ca_file", c.TLS.ClientCAFile, false},
		{"tls.server_cert_file", c.TLS.ServerCertFile, false},
		{"tls.server_key_file", c.TLS.ServerKeyFile, true},
	}
	if c.TLS.ServerCAFile != SystemCAs {
		named = append(named, namedFile{"tls.server_ca_file", c.TLS.ServerCAFile, false})
	}
	return named
}

// checkReadable tells why a file cannot be read. It looks before it opens: a pipe would wait for its writer.
func checkReadable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return withoutPath(err)
	case info.IsDir():
		return errors.New("it is a directory: name a file")
	case !info.Mode().IsRegular():
		return errors.New("it is no regular file, which can be read again")
	}
	f, err := os.Open(path)
	if err != nil {
		return withoutPath(err)
	}
	return f.Close()
}

// Incomplete tells what is missing for clients to log in, which Load does not ask for: settings can be judged, or changed
// one by one, where nobody logs in. A process that is to serve them must not start, nor take them on a reload. Each problem
// has the place of the setting to change.
func Incomplete(c *Config, o *Origins) []Problem {
	if !c.Auth.Method.NeedsSecrets() || c.Auth.UsersFile != "" {
		return nil
	}
	var problems []Problem
	for i := range c.Databases {
		if query, _ := c.AuthQuery(&c.Databases[i]); query == "" {
			path := entryAt(sectionDatabases, i)
			problems = append(problems, Problem{o.Of(path), path + " has no auth_query and auth.users_file is not set: nobody could log in to it"})
		}
	}
	if len(problems) == len(c.Databases) {
		const method = "auth.method"
		return []Problem{{o.Of(method), method + " is " + string(c.Auth.Method) + ", but nothing says where the users' secrets are: " +
			"set auth.users_file, or auth.auth_query and auth.auth_user, or auth.method to hba with an auth.hba_file; " +
			"auth.method trust lets everybody in without a password"}}
	}
	return problems
}
