package configs

// The rows of admin, log, reload, drain and reaper: what an operator has to do with.

const maxOperators = 1000

var adminOptions = []Option{
	{
		Section: sectionAdmin, Key: "listen", Kind: KindString, Default: "127.0.0.1:6433", MaxLen: 300, Scope: ScopeProcess, check: checkAdminListen,
		Doc: "Address of the HTTP server with metrics, health and JSON, `host:port`. It asks nobody who they are. Empty: none",
	},
	{
		Section: sectionAdmin, Key: "users", Kind: KindStrings, Default: []any{}, MaxLen: maxName, MaxItems: maxOperators, Scope: ScopeProcess, check: checkUserName,
		Doc: "The users that may use the console with all its commands. They log in as every client does",
	},
	{
		Section: sectionAdmin, Key: "stats_users", Kind: KindStrings, Default: []any{}, MaxLen: maxName, MaxItems: maxOperators, Scope: ScopeProcess, check: checkUserName,
		Doc: "The users that may use the console to look, with SHOW and nothing else",
	},
	{
		Section: sectionAdmin, Key: "database", Kind: KindString, Default: "pg_kinetic", MaxLen: maxName, Scope: ScopeProcess, check: checkConsoleName,
		Doc: "The database to ask for to reach the console, at the addresses of `server.listen`; `pgbouncer` reaches it too",
	},
	{
		Section: sectionAdmin, Key: "pprof", Kind: KindBool, Default: false, Scope: ScopeProcess,
		Doc: "Serve Go's profiles at `/debug/pprof` of `listen`. Making one costs processor time, and it shows what the process holds in memory",
	},
}

var operationOptions = []Option{
	{
		Section: sectionLog, Key: "level", Kind: KindEnum, Default: "info", Enum: []string{"debug", "info", "warn", "error"}, Scope: ScopeProcess,
		Doc: "The least level that is logged",
	},
	{
		Section: sectionLog, Key: "format", Kind: KindEnum, Default: "text", Enum: []string{"text", "json"}, Scope: ScopeProcess,
		Doc: "`text`: key=value lines; `json`: one object per line",
	},
	{
		Section: sectionLog, Key: "connections", Kind: KindBool, Default: true, Scope: ScopeProcess,
		Doc: "Log each login and each disconnect of a client",
	},
	{
		Section: sectionLog, Key: "slow_query_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "Log each query that ran at least this long on its backend, without the values in its text. 0: none",
	},
	{
		Section: sectionReload, Key: "watch", Kind: KindBool, Default: false, Scope: ScopeProcess,
		Doc: "Reload when the settings file, or a file that it names, has changed; SIGHUP and RELOAD do so too",
	},
	{
		Section: sectionDrain, Key: "timeout_ms", Kind: KindInt, Default: 30000, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "On SIGTERM or SIGINT: longest wait for open transactions. 0: none",
	},
	{
		Section: sectionReaper, Key: "server_check_delay_ms", Kind: KindInt, Default: 30000, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "Idle time after which `server_check_query` tests a backend, which serves nobody meanwhile. 0: once a second",
	},
	{
		Section: sectionReaper, Key: "server_check_query", Kind: KindString, Default: "", MaxLen: maxSQL, Scope: ScopeProcess,
		Doc: "SQL that tests backends which have been idle for long, such as `SELECT 1`; one that fails or is not answered in a second is closed. Empty: none is tested",
	},
	{
		Section: sectionReaper, Key: "dns_max_ttl_ms", Kind: KindInt, Default: 15000, Min: 1000, Max: maxMs, Scope: ScopeProcess,
		Doc: "How long the addresses of a name in `hosts` are used before it is looked up again; less if a name server says so, but never less than a second",
	},
	{
		Section: sectionReaper, Key: "dns_vanished", Kind: KindEnum, Default: VanishedRetire, Enum: []string{VanishedRetire, VanishedKeep}, Scope: ScopeProcess,
		Doc: "What becomes of backends at an address that their host's name does not have any more. `retire`: they are closed, those in use when they are released; `keep`: they stay, for names that stand for other addresses at each look-up",
	},
	{
		Section: sectionReaper, Key: "backend_tcp_keepalive_ms", Kind: KindInt, Default: 60000, Min: 0, Max: 32_767_000, Scope: ScopeProcess,
		Doc: "Idle time after which a socket to PostgreSQL is probed (TCP_KEEPIDLE, rounded up to seconds). 0: no probes",
	},
	{
		Section: sectionReaper, Key: "backend_tcp_user_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "Longest time that sent bytes may stay unacknowledged on a socket to PostgreSQL (TCP_USER_TIMEOUT). 0: the system's default",
	},
}
