package configs

// The rows of server, databases, users and admission.

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
	tib = int64(1) << 40

	// maxMs is the longest time, as in PostgreSQL's own settings: 2^31-1 ms, about 24 days.
	maxMs = int64(1)<<31 - 1
	// maxName is the longest name that PostgreSQL keeps (NAMEDATALEN - 1); it cuts longer ones without an error, so two
	// of them could silently become one.
	maxName = 63
	// maxPath is PATH_MAX of Linux less its closing NUL.
	maxPath = 4095
	maxSQL  = 64 << 10
	// maxRegexp bounds what a pattern costs, which grows with its length.
	maxRegexp = 1 << 10
	// maxHosts bounds how many hosts a login may have to try.
	maxHosts = 16
)

var poolModes = []string{string(PoolModeTransaction), string(PoolModeSession), string(PoolModeStatement)}

var serverOptions = []Option{
	{
		Section: sectionServer, Key: "listen", Kind: KindStrings, Default: []any{"127.0.0.1:6432"}, MaxLen: 300, MaxItems: 64,
		Scope: ScopeProcess, check: checkListen,
		Doc: "TCP addresses for clients, each `host:port`; without a host every address, port 0 any free port. May be empty when `unix_socket_dir` is set",
	},
	{
		Section: sectionServer, Key: "unix_socket_dir", Kind: KindString, Default: "", MaxLen: maxSocketPath - len(".s.PGSQL.65535") - 1,
		Scope: ScopeProcess, check: checkSocketDir,
		Doc: "Directory of the Unix socket for clients, named `.s.PGSQL.<port>` with the port of the first `listen` address (6432 without one). Empty: no Unix socket",
	},
	{
		Section: sectionServer, Key: "unix_socket_mode", Kind: KindOctal, Default: "0777", Scope: ScopeProcess,
		Doc: "Permissions of the Unix socket, octal",
	},
	{
		Section: sectionServer, Key: "loops", Kind: KindInt, Default: 0, Min: 0, Max: 64, Scope: ScopeProcess,
		Doc: "Event loops. 0: one per CPU that the process may use (its cgroup included), less one that is left to helpers and to the kernel's share of the work; at least one",
	},
	{
		Section: sectionServer, Key: "io_uring", Kind: KindBool, Default: true, Scope: ScopeProcess,
		Doc: "Send what one round of a loop has to send by one io_uring call, where the kernel (5.12 or newer), the container and `kernel.io_uring_disabled` allow it; else, and with false, by one call per connection",
	},
	{
		Section: sectionServer, Key: "pool_mode", Kind: KindEnum, Default: string(PoolModeTransaction), Enum: poolModes, Scope: ScopeProcess,
		Doc: "How long a client keeps its backend. `transaction`: until the transaction ends; `session`: until the client leaves; `statement`: as `transaction`, but a block may not stay open",
	},
	{
		Section: sectionServer, Key: "max_clients", Kind: KindInt, Default: 10000, Min: 1, Max: 1_000_000, Scope: ScopeProcess,
		Doc: "Logged-in clients. One more gets FATAL 53300. When this is left at its default and the system's descriptor limit is too low for it, it is lowered to what fits",
	},
	{
		Section: sectionServer, Key: "max_unauthenticated", Kind: KindInt, Default: 1000, Min: 1, Max: 100_000, Scope: ScopeProcess,
		Doc: "Client sockets whose owners have not proved who they are. One more is closed unseen, or displaces the oldest that has had a second",
	},
	{
		Section: sectionServer, Key: "backlog", Kind: KindInt, Default: 4096, Min: 1, Max: 65535, Scope: ScopeProcess,
		Doc: "Connections that the system holds for each listener until they are accepted; `net.core.somaxconn` bounds it too",
	},
	{
		Section: sectionServer, Key: "login_timeout_ms", Kind: KindInt, Default: 60000, Min: 1, Max: maxMs, Scope: ScopeProcess,
		Doc: "Longest time from accepting a client to the end of its login. Over TCP the system hands a client on with its first bytes, or after about a second",
	},
	{
		Section: sectionServer, Key: "tcp_keepalive_ms", Kind: KindInt, Default: 60000, Min: 0, Max: 32_767_000, Scope: ScopeProcess,
		Doc: "Idle time after which a client's socket is probed (TCP_KEEPIDLE, rounded up to seconds). 0: no probes",
	},
	{
		Section: sectionServer, Key: "tcp_user_timeout_ms", Kind: KindInt, Default: 0, Min: 0, Max: maxMs, Scope: ScopeProcess,
		Doc: "Longest time that sent bytes may stay unacknowledged on a client's socket (TCP_USER_TIMEOUT). 0: the system's default",
	},
	{
		Section: sectionServer, Key: "max_buffer_memory", Kind: KindSize, Default: 256 * mib, Min: mib, Max: tib, Scope: ScopeProcess,
		Doc: "Bytes in all connection buffers together. Above it no client that has logged in is read; above 110 % the client with most unread output is closed",
	},
	{
		Section: sectionServer, Key: "max_pools", Kind: KindInt, Default: 1000, Min: 1, Max: 100_000, Scope: ScopeProcess,
		Doc: "Pools, one for each combination of database entry, database name and server user. One that has neither clients nor backends is forgotten when another is needed; a login that needs one more gets FATAL 53300",
	},
	{
		Section: sectionServer, Key: "pid_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeProcess,
		Doc: "File that holds the process id while it runs. Empty: none",
	},
	{
		Section: sectionServer, Key: "proxy_protocol", Kind: KindEnum, Default: string(ProxyOff), Scope: ScopeProcess,
		Enum: []string{string(ProxyOff), string(ProxyOptional), string(ProxyRequired)},
		Doc:  "Whether a connection begins with a PROXY protocol header (version 1 or 2), whose address is then the client's. `optional`: it may, from those in `proxy_protocol_from`; `required`: from those it must, and nobody else may connect over TCP. A header from anybody else closes the connection",
	},
	{
		Section: sectionServer, Key: "proxy_protocol_from", Kind: KindStrings, Default: []any{}, MaxLen: maxPattern, MaxItems: maxMatches, Scope: ScopeProcess, check: checkClientAddr,
		Doc: "The proxies whose header is believed: IPv4 or IPv6 addresses, blocks such as `10.0.0.0/8`, or `unix` for the Unix socket",
	},
}

var databaseOptions = []Option{
	{
		Section: sectionDatabases, Key: "name", Kind: KindString, MaxLen: maxName, Scope: ScopeDatabase, Required: true, check: checkNotEmpty,
		Doc: "The database that clients ask for; `*` stands for every name without an entry of its own",
	},
	{
		Section: sectionDatabases, Key: "hosts", Kind: KindStrings, Default: []any{"127.0.0.1:5432"}, MaxLen: 300, MaxItems: maxHosts, Scope: ScopeDatabase, check: checkHost,
		Doc: "Where its PostgreSQL is: `host:port`, `[v6]:port`, or the directory of its Unix socket (`/run/postgresql`, with `:port` unless 5432). Of several the first that answers and fits `target_session_attrs` serves, until it fails",
	},
	{
		Section: sectionDatabases, Key: "target_session_attrs", Kind: KindEnum, Default: string(SessionAny), Scope: ScopeDatabase,
		Enum: []string{
			string(SessionAny), string(SessionReadWrite), string(SessionReadOnly), string(SessionPrimary), string(SessionStandby), string(SessionPreferStandby),
		},
		Doc: "Which of `hosts` may serve, as in libpq. `read-write`, `read-only`: transactions there are, by default; `primary`, `standby`: the server is; `prefer-standby`: a standby if there is one, else any",
	},
	{
		Section: sectionDatabases, Key: "dbname", Kind: KindString, Default: "", MaxLen: maxName, Scope: ScopeDatabase,
		Doc: "The database's name in PostgreSQL. Empty: the name asked for",
	},
	{
		Section: sectionDatabases, Key: "user", Kind: KindString, Default: "", MaxLen: maxName, Scope: ScopeDatabase,
		Doc: "The user that logs in to PostgreSQL for all clients of this entry. Empty: the client's user",
	},
	{
		Section: sectionDatabases, Key: "password", Kind: KindString, Default: "", MaxLen: maxPassword, Scope: ScopeDatabase, Secret: true,
		Doc: "The password for PostgreSQL, of `user` or else of every client's user. At most one of `password`, `password_env` and `password_file`",
	},
	{
		Section: sectionDatabases, Key: "password_env", Kind: KindString, Default: "", MaxLen: 255, Scope: ScopeDatabase, check: checkEnvName,
		Doc: "The environment variable that holds the password",
	},
	{
		Section: sectionDatabases, Key: "password_file", Kind: KindString, Default: "", MaxLen: maxPath, Scope: ScopeDatabase,
		Doc: "The file that holds the password; line ends at its end do not count",
	},
	{
		Section: sectionDatabases, Key: "pool_mode", Kind: KindEnum, Enum: poolModes, Scope: ScopeDatabase,
		Doc: "`server.pool_mode` for this database",
	},
	{
		Section: sectionDatabases, Key: "max_clients", Kind: KindInt, Min: 1, Max: 1_000_000, Scope: ScopeDatabase,
		Doc: "Logged-in clients of this entry. One more gets FATAL 53300",
	},
	{
		Section: sectionDatabases, Key: "startup_parameters", Kind: KindMap, MaxLen: 8 << 10, MaxItems: 100, Scope: ScopeDatabase,
		Doc: "Parameters sent with every login to PostgreSQL, by name",
	},
	{
		Section: sectionDatabases, Key: "connect_query", Kind: KindString, Default: "", MaxLen: maxSQL, Scope: ScopeDatabase,
		Doc: "SQL that runs once on each new backend before its first client. Empty: none",
	},
	{
		Section: sectionDatabases, Key: "auth_query", Kind: KindString, Default: "", MaxLen: maxSQL, Scope: ScopeDatabase, check: checkAuthQuery,
		Doc: "`auth.auth_query` for this database. Empty: that one",
	},
	{
		Section: sectionDatabases, Key: "auth_user", Kind: KindString, Default: "", MaxLen: maxName, Scope: ScopeDatabase,
		Doc: "`auth.auth_user` for this database. Empty: that one",
	},
	{
		Section: sectionDatabases, Key: "application_name_add_host", Kind: KindBool, Default: false, Scope: ScopeDatabase,
		Doc: "Add the client's address and port to the application_name that PostgreSQL shows, as in `name - 10.0.0.7:41234`",
	},
}

var userOptions = []Option{
	{
		Section: sectionUsers, Key: "name", Kind: KindString, MaxLen: maxName, Scope: ScopeUser, Required: true, check: checkUserName,
		Doc: "The user that clients log in as. An entry sets limits only; it neither allows nor forbids a login",
	},
	{
		Section: sectionUsers, Key: "pool_mode", Kind: KindEnum, Enum: poolModes, Scope: ScopeUser,
		Doc: "`server.pool_mode` for this user; goes before the database's",
	},
	{
		Section: sectionUsers, Key: "max_clients", Kind: KindInt, Min: 1, Max: 1_000_000, Scope: ScopeUser,
		Doc: "Logged-in clients of this user. One more gets FATAL 53300",
	},
}

var admissionOptions = []Option{
	{
		Section: sectionAdmission, Key: "route_key", Kind: KindStrings, Default: []any{"database", "user", "application_name", "client_addr", "query_class"},
		MaxLen: maxName, MaxItems: len(routeParts), Enum: routeParts, Scope: ScopeProcess,
		Doc: "What makes two requests belong to different routes, each with limits and a queue of its own, where no rule of `routes` with a name says otherwise. `database` and `user` are always part of it, even if left out",
	},
	{
		Section: sectionAdmission, Key: "max_routes", Kind: KindInt, Default: 10000, Min: 16, Max: 1_000_000, Scope: ScopeProcess,
		Doc: "Routes that are kept at the same time. Once more than half are, one database and user may have a sixteenth of them; the rest of its requests share one route per pool",
	},
	{
		Section: sectionAdmission, Key: "application_name_pattern", Kind: KindString, Default: "", MaxLen: maxRegexp, Scope: ScopeProcess, check: checkRegexp,
		Doc: "Regular expression (RE2 syntax) whose matches in an application name are replaced before it counts for a route, so that names with a process number or a host in them stay one route. Empty: off",
	},
	{
		Section: sectionAdmission, Key: "application_name_replace", Kind: KindString, Default: "", MaxLen: maxRegexp, Scope: ScopeProcess,
		Doc: "What replaces a match of `application_name_pattern`; `$1` or `${1}` is its first group, `$$` a dollar sign",
	},
	{
		Section: sectionAdmission, Key: "fifo_slack_ms", Kind: KindInt, Default: 2, Min: 0, Max: 1000, Scope: ScopeProcess,
		Doc: "A loop may give its free backend to its own oldest waiter if that one came at most this much later than the oldest of all: moving a backend between loops costs. 0: strict order",
	},
	{
		Section: sectionAdmission, Key: "max_connects_per_host", Kind: KindInt, Default: 8, Min: 1, Max: 1000, Scope: ScopeProcess,
		Doc: "Logins to one PostgreSQL host in progress at the same time",
	},
}
