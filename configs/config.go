package configs

// Config is one complete, checked set of settings. It is immutable once Load returned it: a reload makes a new one, so
// loops may read it without a lock. Times are milliseconds (…Ms), sizes bytes.
type Config struct {
	Server    Server     `koanf:"server"`
	Databases []Database `koanf:"databases"`
	Users     []User     `koanf:"users"`
	Capacity  Capacity   `koanf:"capacity"`
	Admission Admission  `koanf:"admission"`
	Routes    []Route    `koanf:"routes"` // first match wins
	Auth      Auth       `koanf:"auth"`
	TLS       TLS        `koanf:"tls"`
	Admin     Admin      `koanf:"admin"`
	Log       Log        `koanf:"log"`
	Reload    Reload     `koanf:"reload"`
	Drain     Drain      `koanf:"drain"`
	Reaper    Reaper     `koanf:"reaper"`
}

// PoolMode says how long a client keeps its backend.
type PoolMode string

// The pool modes: until the transaction ends, until the client leaves, and transaction mode without open blocks.
const (
	PoolModeTransaction PoolMode = "transaction"
	PoolModeSession     PoolMode = "session"
	PoolModeStatement   PoolMode = "statement"
)

// The two named values of reset_query; any other value is SQL.
const (
	ResetSmart   = "smart"
	ResetDiscard = "discard"
)

// Server is the process itself: where it listens and its own bounds.
type Server struct {
	Listen             []string      `koanf:"listen"`           // host:port; an empty host is every address, port 0 any free port
	UnixSocketDir      string        `koanf:"unix_socket_dir"`  // empty: no Unix socket
	UnixSocketMode     string        `koanf:"unix_socket_mode"` // octal; see SocketMode
	Loops              int           `koanf:"loops"`            // 0: one per CPU of the process
	IOUring            bool          `koanf:"io_uring"`
	PoolMode           PoolMode      `koanf:"pool_mode"`
	MaxClients         int           `koanf:"max_clients"`
	MaxUnauthenticated int           `koanf:"max_unauthenticated"`
	Backlog            int           `koanf:"backlog"`
	LoginTimeoutMs     int           `koanf:"login_timeout_ms"`
	TCPKeepaliveMs     int           `koanf:"tcp_keepalive_ms"`    // 0: off
	TCPUserTimeoutMs   int           `koanf:"tcp_user_timeout_ms"` // 0: the system's
	MaxBufferMemory    int64         `koanf:"max_buffer_memory"`
	MaxPools           int           `koanf:"max_pools"`
	PidFile            string        `koanf:"pid_file"` // empty: none
	ProxyProtocol      ProxyProtocol `koanf:"proxy_protocol"`
	ProxyProtocolFrom  []string      `koanf:"proxy_protocol_from"` // see ProxySources
}

// Database is one entry of databases. Limits are overrides: a nil field was not set here. MaxBackends of an entry caps
// the sum of its pools, beside the cap of the host.
type Database struct {
	Name                   string            `koanf:"name"`  // what clients ask for; "*" is any
	Hosts                  []Host            `koanf:"hosts"` // at least one, none twice, in the order of trying
	TargetSessionAttrs     SessionAttrs      `koanf:"target_session_attrs"`
	DBName                 string            `koanf:"dbname"`   // empty: the name asked for
	User                   string            `koanf:"user"`     // empty: the client's user
	Password               Secret            `koanf:"password"` // whatever its source: Load resolves password_env and password_file
	PasswordEnv            string            `koanf:"password_env"`
	PasswordFile           string            `koanf:"password_file"`
	PoolMode               PoolMode          `koanf:"pool_mode"`   // empty: not set here; see Config.PoolMode
	MaxClients             *int              `koanf:"max_clients"` // nil: no bound of its own
	StartupParameters      map[string]string `koanf:"startup_parameters"`
	ConnectQuery           string            `koanf:"connect_query"` // empty: none
	AuthQuery              string            `koanf:"auth_query"`    // empty: not set here; see Config.AuthQuery
	AuthUser               string            `koanf:"auth_user"`     // empty: not set here
	ApplicationNameAddHost bool              `koanf:"application_name_add_host"`
	Limits                 `koanf:",squash"`
}

// Host returns the first of the database's hosts.
func (d *Database) Host() Host { return d.Hosts[0] }

// HostList returns the database's hosts in the order of trying, at least one. The slice is shared: read only.
func (d *Database) HostList() []Host { return d.Hosts }

// ServerDatabase returns the database name to send to PostgreSQL for a client that asked for the given one.
func (d *Database) ServerDatabase(asked string) string {
	if d.DBName != "" {
		return d.DBName
	}
	return asked
}

// ServerUser returns the user that logs in to PostgreSQL for a client logged in as the given one.
func (d *Database) ServerUser(client string) string {
	if d.User != "" {
		return d.User
	}
	return client
}

// User is one entry of users: overrides for the client user of that name. It says nothing about authentication.
type User struct {
	Name       string   `koanf:"name"`
	PoolMode   PoolMode `koanf:"pool_mode"`   // empty: not set here
	MaxClients *int     `koanf:"max_clients"` // nil: no bound of its own
	Limits     `koanf:",squash"`
}

// Admission is how requests are told apart and scheduled.
type Admission struct {
	RouteKey               []string `koanf:"route_key"` // database, user, application_name, client_addr, query_class; the first two count even where they are left out
	MaxRoutes              int      `koanf:"max_routes"`
	FifoSlackMs            int      `koanf:"fifo_slack_ms"`            // 0: strict order
	ApplicationNamePattern string   `koanf:"application_name_pattern"` // compiles as a regexp; empty: off
	ApplicationNameReplace string   `koanf:"application_name_replace"` // as for regexp.Regexp.ReplaceAllString; its groups exist
	MaxConnectsPerHost     int      `koanf:"max_connects_per_host"`
}

// Database returns the entry for the name that a client asked for: an exact name goes before "*". Nil when there is none.
func (c *Config) Database(name string) *Database {
	var any *Database
	for i := range c.Databases {
		switch c.Databases[i].Name {
		case name:
			return &c.Databases[i]
		case AnyDatabase:
			any = &c.Databases[i]
		}
	}
	return any
}

// AnyDatabase is the name of the entry for databases that have none of their own.
const AnyDatabase = "*"

// User returns the entry of that client user, or nil.
func (c *Config) User(name string) *User {
	for i := range c.Users {
		if c.Users[i].Name == name {
			return &c.Users[i]
		}
	}
	return nil
}

// PoolMode returns the mode of a client's pool: user before database before server. Both arguments may be nil.
func (c *Config) PoolMode(db *Database, user *User) PoolMode {
	if user != nil && user.PoolMode != "" {
		return user.PoolMode
	}
	if db != nil && db.PoolMode != "" {
		return db.PoolMode
	}
	return c.Server.PoolMode
}

// Hosts returns the distinct PostgreSQL hosts of all databases, in the order of the file.
func (c *Config) Hosts() []Host {
	var hosts []Host
	seen := map[Host]bool{}
	for i := range c.Databases {
		for _, h := range c.Databases[i].Hosts {
			if !seen[h] {
				seen[h] = true
				hosts = append(hosts, h)
			}
		}
	}
	return hosts
}
