package configs

import "net/netip"

// Who may connect, how that is proved, and what is encrypted. File names are taken as they are written: a relative one is
// relative to the directory in which the process was started.

// AuthMethod says how a client proves who it is.
type AuthMethod string

// The methods. Under AuthHBA the rules of a file choose one of the others for each client.
const (
	AuthSCRAM    AuthMethod = "scram-sha-256"
	AuthMD5      AuthMethod = "md5"
	AuthPassword AuthMethod = "password"
	AuthCert     AuthMethod = "cert"
	AuthHBA      AuthMethod = "hba"
	AuthTrust    AuthMethod = "trust"
	AuthReject   AuthMethod = "reject"
)

// NeedsSecrets reports whether a client can log in by the method only where its secret is known.
func (m AuthMethod) NeedsSecrets() bool {
	return m == AuthSCRAM || m == AuthMD5 || m == AuthPassword
}

// Auth is how clients log in, and where their secrets are.
type Auth struct {
	Method       AuthMethod `koanf:"method"`
	UsersFile    string     `koanf:"users_file"` // empty: none
	HBAFile      string     `koanf:"hba_file"`   // set exactly when Method is AuthHBA
	IdentFile    string     `koanf:"ident_file"` // empty: none
	Query        string     `koanf:"auth_query"` // empty: none; see Config.AuthQuery
	User         string     `koanf:"auth_user"`  // empty: none; see Config.AuthQuery
	QueryCacheMs int        `koanf:"auth_query_cache_ms"`
}

// AuthQuery returns the query that finds the secrets of a database's users, and the user that runs it: each is the entry's
// own, else the one of auth. Both are empty, or neither.
func (c *Config) AuthQuery(db *Database) (query, user string) {
	query, user = c.Auth.Query, c.Auth.User
	if db.AuthQuery != "" {
		query = db.AuthQuery
	}
	if db.AuthUser != "" {
		user = db.AuthUser
	}
	if query == "" {
		return "", ""
	}
	return query, user
}

// TLSMode says whether a connection is encrypted and what is verified of the other side, in the words of libpq's sslmode.
type TLSMode string

// The modes, from the least to the most.
const (
	TLSDisable    TLSMode = "disable"
	TLSAllow      TLSMode = "allow"
	TLSPrefer     TLSMode = "prefer"
	TLSRequire    TLSMode = "require"
	TLSVerifyCA   TLSMode = "verify-ca"
	TLSVerifyFull TLSMode = "verify-full"
)

// Verifies reports whether the other side must have a certificate of a known authority.
func (m TLSMode) Verifies() bool { return m == TLSVerifyCA || m == TLSVerifyFull }

// Requires reports whether nothing may go over a connection that is not encrypted.
func (m TLSMode) Requires() bool { return m == TLSRequire || m.Verifies() }

// SystemCAs as server_ca_file stands for the authorities that the system trusts.
const SystemCAs = "system"

// TLS is the encryption of both sides: Client… of the connections that clients make to us, Server… of those that we make
// to PostgreSQL.
type TLS struct {
	ClientMode     TLSMode `koanf:"client_mode"`
	ClientCertFile string  `koanf:"client_cert_file"` // ours, shown to clients
	ClientKeyFile  string  `koanf:"client_key_file"`
	ClientCAFile   string  `koanf:"client_ca_file"` // whose clients' certificates are good
	ServerMode     TLSMode `koanf:"server_mode"`
	ServerCAFile   string  `koanf:"server_ca_file"`   // whose servers' certificates are good; or SystemCAs
	ServerCertFile string  `koanf:"server_cert_file"` // ours, shown to PostgreSQL
	ServerKeyFile  string  `koanf:"server_key_file"`
	MinVersion     string  `koanf:"min_version"` // TLS12 or TLS13
}

// The values of min_version.
const (
	TLS12 = "1.2"
	TLS13 = "1.3"
)

// ProxyProtocol says whether connections begin with a header of the PROXY protocol.
type ProxyProtocol string

// Never; where a source that may send one does; or always from such a source, and nobody else over TCP.
const (
	ProxyOff      ProxyProtocol = "off"
	ProxyOptional ProxyProtocol = "optional"
	ProxyRequired ProxyProtocol = "required"
)

// ProxySources returns who may send a header of the PROXY protocol: addresses as prefixes, none of them IPv4-mapped, a
// single one as a prefix of full length; and whether those on the Unix socket may.
func (s *Server) ProxySources() (prefixes []netip.Prefix, unix bool) {
	return parseAddresses(s.ProxyProtocolFrom)
}
