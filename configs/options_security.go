package configs

// The rows of auth and tls.

var authOptions = []Option{
	{
		Section: sectionAuth, Key: "method", Kind: KindEnum, Default: string(AuthSCRAM), Scope: ScopeProcess,
		Enum: []string{
			string(AuthSCRAM), string(AuthMD5), string(AuthPassword), string(AuthCert), string(AuthHBA), string(AuthTrust), string(AuthReject),
		},
		Doc: "How clients prove who they are. `scram-sha-256`, `md5`, `password`: by a password, whose secret is in `users_file` or found by `auth_query`; `cert`: by a TLS certificate with the user's name; `hba`: as the rules of `hba_file` say; `trust`: everybody is whom they say; `reject`: nobody comes in",
	},
	{
		Section: sectionAuth, Key: "users_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "File of users and their secrets, one `\"user\" \"secret\"` a line: a password, `md5…` or `SCRAM-SHA-256$…`. Who is not in it is looked for by `auth_query`. Empty: none",
	},
	{
		Section: sectionAuth, Key: "hba_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "File of rules in the syntax of pg_hba.conf, for `method: hba`. Empty: none",
	},
	{
		Section: sectionAuth, Key: "ident_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "File of user maps in the syntax of pg_ident.conf, to which rules of `hba_file` refer by `map=`. Empty: none",
	},
	{
		Section: sectionAuth, Key: "auth_query", Kind: KindString, Default: "", MaxLen: maxSQL, Scope: ScopeProcess, check: checkAuthQuery,
		Doc: "SQL that finds the secret of the user `$1`; it gives the user's name, the secret and, if it has a third column, the time until which that is valid. It runs as `auth_user` on a connection of its own. Empty: none",
	},
	{
		Section: sectionAuth, Key: "auth_user", Kind: KindString, Default: "", MaxLen: maxName, Scope: ScopeProcess,
		Doc: "The user that logs in to PostgreSQL to run `auth_query`",
	},
	{
		Section: sectionAuth, Key: "auth_query_cache_ms", Kind: KindInt, Default: 60000, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "How long a secret that `auth_query` has found is used again. A password that does not fit it is looked up once more at once. 0: never",
	},
}

var tlsModes = []string{
	string(TLSDisable), string(TLSAllow), string(TLSPrefer), string(TLSRequire), string(TLSVerifyCA), string(TLSVerifyFull),
}

var tlsOptions = []Option{
	{
		Section: sectionTLS, Key: "client_mode", Kind: KindEnum, Default: string(TLSDisable), Enum: tlsModes, Scope: ScopeProcess,
		Doc: "TLS of clients. `disable`: none; `allow`, `prefer`: who asks for it gets it; `require`: nobody comes in without (Unix sockets excepted); `verify-ca`: nor without a certificate of `client_ca_file`; `verify-full`: nor unless that names the user",
	},
	{
		Section: sectionTLS, Key: "client_cert_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The certificate shown to clients, in PEM, those of its chain behind it",
	},
	{
		Section: sectionTLS, Key: "client_key_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The private key of `client_cert_file`, in PEM",
	},
	{
		Section: sectionTLS, Key: "client_ca_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The authorities whose certificates of clients are good, in PEM. In the modes below `verify-ca` a client may show one, which is then verified. Empty: none is asked for",
	},
	{
		Section: sectionTLS, Key: "server_mode", Kind: KindEnum, Default: string(TLSDisable), Enum: tlsModes, Scope: ScopeProcess,
		Doc: "TLS to PostgreSQL, as libpq's `sslmode`: `disable`: none; `allow`: only if it refuses us without; `prefer`: only if it has it; `require`: always; `verify-ca`: always, and its certificate must be of `server_ca_file`; `verify-full`: and name the host. Never on Unix sockets",
	},
	{
		Section: sectionTLS, Key: "server_ca_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The authorities whose certificates of PostgreSQL are good, in PEM, or `system` for those that the system trusts. Where it is set, `allow`, `prefer` and `require` verify as `verify-ca` does. Empty: none",
	},
	{
		Section: sectionTLS, Key: "server_cert_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The certificate shown to PostgreSQL if it asks for one, in PEM. Empty: none",
	},
	{
		Section: sectionTLS, Key: "server_key_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "The private key of `server_cert_file`, in PEM",
	},
	{
		Section: sectionTLS, Key: "min_version", Kind: KindEnum, Default: TLS12, Enum: []string{TLS12, TLS13}, Scope: ScopeProcess,
		Doc: "The oldest version of TLS that is spoken, with clients and with PostgreSQL",
	},
}
