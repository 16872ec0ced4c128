package configs

import "slices"

// What an operator has to do with: the console and the HTTP server, the log, reloads, the graceful stop, and the care of
// backends that nobody uses.

// Admin is how operators reach the process.
type Admin struct {
	Listen     string   `koanf:"listen"`      // of the HTTP server; empty: none
	Users      []string `koanf:"users"`       // console, all commands
	StatsUsers []string `koanf:"stats_users"` // console, SHOW
	Database   string   `koanf:"database"`    // that leads to the console, beside ConsoleAlias
	PProf      bool     `koanf:"pprof"`
}

// ConsoleAlias is the database that leads to the console whatever admin.database says, for tools made for PgBouncer.
const ConsoleAlias = "pgbouncer"

// IsConsole reports whether a client that asks for the database is to reach the console.
func (a *Admin) IsConsole(database string) bool {
	return database == a.Database || database == ConsoleAlias
}

// Log is what is logged and how.
type Log struct {
	Level       string `koanf:"level"`  // debug, info, warn, error
	Format      string `koanf:"format"` // text, json
	Connections bool   `koanf:"connections"`
	SlowQueryMs int    `koanf:"slow_query_ms"` // 0: none
}

// Reload is when the settings are read again, beside when somebody says so.
type Reload struct {
	Watch bool `koanf:"watch"`
}

// Drain is the graceful stop.
type Drain struct {
	TimeoutMs int `koanf:"timeout_ms"`
}

// Reaper is the care of backends that nobody uses, and of what all connections to PostgreSQL have in common.
type Reaper struct {
	ServerCheckDelayMs      int    `koanf:"server_check_delay_ms"` // 0: test once a second
	ServerCheckQuery        string `koanf:"server_check_query"`    // empty: no test
	DNSMaxTTLMs             int    `koanf:"dns_max_ttl_ms"`
	DNSVanished             string `koanf:"dns_vanished"`                // VanishedRetire or VanishedKeep
	BackendTCPKeepaliveMs   int    `koanf:"backend_tcp_keepalive_ms"`    // 0: off
	BackendTCPUserTimeoutMs int    `koanf:"backend_tcp_user_timeout_ms"` // 0: the system's
}

// SessionAttrs says which of a database's hosts may serve, in the words of libpq's target_session_attrs.
type SessionAttrs string

// The attributes. SessionReadWrite and SessionReadOnly are about transactions by default, which a primary may have read-only
// too; SessionPreferStandby takes any host where no standby answers.
const (
	SessionAny           SessionAttrs = "any"
	SessionReadWrite     SessionAttrs = "read-write"
	SessionReadOnly      SessionAttrs = "read-only"
	SessionPrimary       SessionAttrs = "primary"
	SessionStandby       SessionAttrs = "standby"
	SessionPreferStandby SessionAttrs = "prefer-standby"
)

// Files names the files that the settings name, and which a reload reads anew.
func Files(c *Config) (paths []string) {
	for _, f := range files(c) {
		paths = append(paths, f.path)
	}
	for i := range c.Databases {
		paths = append(paths, c.Databases[i].PasswordFile)
	}
	return slices.DeleteFunc(paths, func(path string) bool { return path == "" })
}

// What reaper.dns_vanished may be.
const (
	VanishedRetire = "retire"
	VanishedKeep   = "keep"
)
