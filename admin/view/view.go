// Package view has the rows of everything that operators look at: one struct per
// view of the console, which is also what the HTTP interface gives as JSON, and
// what metrics tell. Whoever runs the pooler fills them in; whoever shows them
// reads columns and their order from the fields (see Columns). It knows neither.
//
// Times of day are time.Time, zero when there is none; durations are numbers whose
// unit the name ends in. A pointer that is nil is a NULL. Columns that PgBouncer
// has keep its names and meanings (PgBouncer documentation, "Admin console").
package view

import "time"

// Client is a row of SHOW CLIENTS, Server one of SHOW SERVERS; Socket is both with
// what their buffers hold (SHOW SOCKETS, and those in use: SHOW ACTIVE_SOCKETS).
type Client struct {
	Type               string    `col:"type"`        // C
	User               string    `col:"user"`        // logged in as
	Database           string    `col:"database"`    // asked for
	Replication        string    `col:"replication"` // none: there are no connections for replication
	State              string    `col:"state"`       // active: it has a server; idle; waiting: for a server; active_cancel_req: a CancelRequest
	Addr               string    `col:"addr"`        // "unix" behind a Unix socket
	Port               int       `col:"port"`        // of the peer
	LocalAddr          string    `col:"local_addr"`  // where it came in, or went out
	LocalPort          int       `col:"local_port"`
	ConnectTime        time.Time `col:"connect_time"`        // UTC
	RequestTime        time.Time `col:"request_time"`        // of the latest request
	Wait               int64     `col:"wait"`                // seconds that it has waited so far
	WaitUs             int64     `col:"wait_us"`             // and microseconds
	CloseNeeded        int       `col:"close_needed"`        // 1 while it is being closed
	Ptr                string    `col:"ptr"`                 // names the connection in link
	Link               string    `col:"link"`                // ptr of its backend
	RemotePID          int64     `col:"remote_pid"`          // of its process, behind a Unix socket; else 0
	TLS                string    `col:"tls"`                 // version and cipher; empty: none
	ApplicationName    string    `col:"application_name"`    // as it is now
	PreparedStatements int       `col:"prepared_statements"` // that it has open
	ID                 uint64    `col:"id"`                  // for KILL_CLIENT
	// What PgBouncer does not show.
	Route      string  `col:"route"`       // label of its present or last request
	Activity   string  `col:"activity"`    // the state machine's own word
	StateMs    float64 `col:"state_ms"`    // since when
	ServerPID  int64   `col:"server_pid"`  // of the backend that serves it; 0: none
	Pins       string  `col:"pins"`        // comma-separated reasons
	AuthMethod string  `col:"auth_method"` // by which it has logged in
}

// Server is a row of SHOW SERVERS.
type Server struct {
	Type               string    `col:"type"`     // S
	User               string    `col:"user"`     // logged in as
	Database           string    `col:"database"` // the pool's name for clients
	Replication        string    `col:"replication"`
	State              string    `col:"state"` // active, idle, used, tested, new, active_cancel, being_canceled
	Addr               string    `col:"addr"`  // of PostgreSQL
	Port               int       `col:"port"`
	LocalAddr          string    `col:"local_addr"`
	LocalPort          int       `col:"local_port"`
	ConnectTime        time.Time `col:"connect_time"`
	RequestTime        time.Time `col:"request_time"`
	Wait               int64     `col:"wait"`         // 0
	WaitUs             int64     `col:"wait_us"`      // 0
	CloseNeeded        int       `col:"close_needed"` // 1: it is closed as soon as it is released
	Ptr                string    `col:"ptr"`
	Link               string    `col:"link"`       // ptr of its client
	RemotePID          int64     `col:"remote_pid"` // of PostgreSQL's process
	TLS                string    `col:"tls"`
	ApplicationName    string    `col:"application_name"`    // of its client
	PreparedStatements int       `col:"prepared_statements"` // that it holds
	ID                 uint64    `col:"id"`                  // unlike any other's
	Activity           string    `col:"activity"`            // the state machine's own word
	StateMs            float64   `col:"state_ms"`
	AgeMs              float64   `col:"age_ms"`  // since the connect
	Host               string    `col:"host"`    // as configured
	Kept               string    `col:"kept"`    // why it is not closed though its idle time or its life is over: in_use, pool_min_idle, …; empty: it is not due
	Queries            uint64    `col:"queries"` // that it has run
	Loop               int       `col:"loop"`    // on which event loop it lives
}

// Socket is a row of SHOW SOCKETS.
type Socket struct {
	Type               string    `col:"type"` // C or S
	User               string    `col:"user"`
	Database           string    `col:"database"`
	Replication        string    `col:"replication"`
	State              string    `col:"state"` // cl_active, cl_waiting, sv_active, sv_idle, sv_used, sv_tested, sv_login, …
	Addr               string    `col:"addr"`
	Port               int       `col:"port"`
	LocalAddr          string    `col:"local_addr"`
	LocalPort          int       `col:"local_port"`
	ConnectTime        time.Time `col:"connect_time"`
	RequestTime        time.Time `col:"request_time"`
	Wait               int64     `col:"wait"`
	WaitUs             int64     `col:"wait_us"`
	CloseNeeded        int       `col:"close_needed"` // as in SHOW CLIENTS and SHOW SERVERS
	Ptr                string    `col:"ptr"`
	Link               string    `col:"link"`
	RemotePID          int64     `col:"remote_pid"` // as in SHOW CLIENTS and SHOW SERVERS
	TLS                string    `col:"tls"`
	ApplicationName    string    `col:"application_name"` // as in SHOW CLIENTS and SHOW SERVERS
	PreparedStatements int       `col:"prepared_statements"`
	ID                 uint64    `col:"id"`
	RecvPos            int       `col:"recv_pos"`    // bytes read and held
	PktPos             int       `col:"pkt_pos"`     // of a message that is being collected
	PktRemain          int64     `col:"pkt_remain"`  // bytes of the present message still to come
	SendPos            int       `col:"send_pos"`    // bytes of waiting output that the peer has taken
	SendRemain         int       `col:"send_remain"` // bytes that the peer has not taken
	PktAvail           int       `col:"pkt_avail"`   // bytes read and held
	SendAvail          int       `col:"send_avail"`  // the same
}

// FD is a row of SHOW FDS. Secrets are never shown: password is empty.
type FD struct {
	FD             int    `col:"fd"`
	Task           string `col:"task"` // client, server, pooler (a listening socket)
	User           string `col:"user"` // of the connection
	Database       string `col:"database"`
	Addr           string `col:"addr"`            // of the peer
	Port           int    `col:"port"`            // of the peer
	Cancel         int64  `col:"cancel"`          // 0: keys are shown to nobody
	Link           int    `col:"link"`            // fd of the other side; 0: none
	ClientEncoding string `col:"client_encoding"` // of the client
	StdStrings     string `col:"std_strings"`     // standard_conforming_strings
	DateStyle      string `col:"datestyle"`       // DateStyle
	TimeZone       string `col:"timezone"`        // TimeZone
	Password       string `col:"password"`        // empty: secrets are shown to nobody
}

// Pool is a row of SHOW POOLS.
type Pool struct {
	Database           string `col:"database"`              // as its clients ask for it
	User               string `col:"user"`                  // that its servers log in as
	ClActive           int    `col:"cl_active"`             // linked to a backend, or idle
	ClWaiting          int    `col:"cl_waiting"`            // wait for a permit or a server
	ClActiveCancelReq  int    `col:"cl_active_cancel_req"`  // cancels on their way to PostgreSQL
	ClWaitingCancelReq int    `col:"cl_waiting_cancel_req"` // cancels that wait for a connection
	SvActive           int    `col:"sv_active"`             // linked to a client
	SvActiveCancel     int    `col:"sv_active_cancel"`      // connections that carry a cancel
	SvBeingCanceled    int    `col:"sv_being_canceled"`     // wait for a cancel to end before they are reused
	SvIdle             int    `col:"sv_idle"`               // free
	SvUsed             int    `col:"sv_used"`               // idle for longer than reaper.server_check_delay_ms
	SvTested           int    `col:"sv_tested"`             // being cleaned or probed
	SvLogin            int    `col:"sv_login"`              // being opened
	Maxwait            int64  `col:"maxwait"`               // seconds that the oldest waiter has waited
	MaxwaitUs          int64  `col:"maxwait_us"`            // and microseconds
	PoolMode           string `col:"pool_mode"`             // transaction, session or statement
	LoadBalanceHosts   string `col:"load_balance_hosts"`    // disable: hosts are tried in order
	// What PgBouncer does not show.
	Entry            string  `col:"entry"`              // the database entry
	Host             string  `col:"host"`               // of its servers
	Size             int     `col:"size"`               // servers, those being opened included
	MaxSize          int     `col:"max_size"`           // the most there may be
	MinIdle          int     `col:"min_idle"`           // kept idle
	Pinned           int     `col:"pinned"`             // kept by clients outside a transaction
	Paused           bool    `col:"paused"`             // itself, its database or the process
	OldestCheckoutMs float64 `col:"oldest_checkout_ms"` // how long a backend has been with the same client
}

// Database is a row of SHOW DATABASES: one per entry, and per name that clients of "*" have asked for.
type Database struct {
	Name                     string  `col:"name"` // asked for, or of the entry
	Host                     *string `col:"host"` // the first, or the one in use
	Port                     int     `col:"port"`
	Database                 string  `col:"database"`                   // PostgreSQL's name; *: the one asked for
	ForceUser                *string `col:"force_user"`                 // its servers log in as; NULL: the client
	PoolSize                 int     `col:"pool_size"`                  // pool_max_size
	MinPoolSize              int     `col:"min_pool_size"`              // pool_min_idle
	ReservePoolSize          int     `col:"reserve_pool_size"`          // 0: there is none
	ServerLifetime           int64   `col:"server_lifetime"`            // seconds
	PoolMode                 *string `col:"pool_mode"`                  // the entry's own; NULL: server.pool_mode
	LoadBalanceHosts         *string `col:"load_balance_hosts"`         // disable: hosts are tried in order
	MaxConnections           int     `col:"max_connections"`            // max_backends; 0: only that of the host
	CurrentConnections       int     `col:"current_connections"`        // servers
	MaxClientConnections     int     `col:"max_client_connections"`     // max_clients; 0: only that of the process
	CurrentClientConnections int     `col:"current_client_connections"` // clients
	Paused                   int     `col:"paused"`                     // 1: by PAUSE or KILL
	Disabled                 int     `col:"disabled"`                   // 1: by DISABLE
	// What PgBouncer does not show.
	Hosts              string `col:"hosts"` // all, comma-separated
	TargetSessionAttrs string `col:"target_session_attrs"`
	Failing            string `col:"failing"` // why the present host does not answer; empty: it does, or is not known
}

// User is a row of SHOW USERS: those of the settings and those that have clients.
type User struct {
	Name                     string  `col:"name"`
	PoolSize                 *int    `col:"pool_size"`                   // the user's own; NULL: none
	ReservePoolSize          *int    `col:"reserve_pool_size"`           // NULL: there is none
	PoolMode                 *string `col:"pool_mode"`                   // the user's own; NULL: none
	MaxUserConnections       int     `col:"max_user_connections"`        // max_backends; 0: none
	CurrentConnections       int     `col:"current_connections"`         // servers
	MaxUserClientConnections int     `col:"max_user_client_connections"` // max_clients; 0: none
	CurrentClientConnections int     `col:"current_client_connections"`  // clients
	// What PgBouncer does not show; since the start.
	Logins  uint64 `col:"logins"`  // that succeeded
	Refused uint64 `col:"refused"` // logins that were not let in
	Cancels uint64 `col:"cancels"` // CancelRequests that named one of its clients
	Abrupt  uint64 `col:"abrupt"`  // clients that have gone without Terminate
}

// Traffic are the sums of one database, since the start or per second.
type Traffic struct {
	ServerAssignmentCount uint64
	XactCount             uint64
	QueryCount            uint64
	Received              uint64 // bytes from clients
	Sent                  uint64 // bytes to clients
	XactTimeUs            uint64
	QueryTimeUs           uint64
	WaitTimeUs            uint64
	ClientParseCount      uint64
	ServerParseCount      uint64
	BindCount             uint64
}

// Stats are the sums of one database name at one moment. Who shows them makes
// SHOW STATS, STATS_TOTALS, STATS_AVERAGES and TOTALS of them.
type Stats struct {
	Database string
	Total    Traffic // since the start
	// Average is of the last full period of PeriodSeconds: counts and bytes per second; times per transaction, per query,
	// and (WaitTimeUs) per second, in microseconds, as PgBouncer's.
	Average Traffic
}

// PeriodSeconds is over what averages are taken (PgBouncer's stats_period).
const PeriodSeconds = 60

// Item is a row of a view that is a list of names and numbers (SHOW LISTS, MEM has more).
type Item struct {
	List  string `col:"list"`  // of what
	Items int64  `col:"items"` // how many there are
}

// Mem is a row of SHOW MEM.
type Mem struct {
	Name     string `col:"name"`     // what it is for
	Size     int64  `col:"size"`     // bytes of one
	Used     int64  `col:"used"`     // how many are in use
	Free     int64  `col:"free"`     // how many are kept for later
	MemTotal int64  `col:"memtotal"` // bytes of all
}

// Setting is a row of SHOW SETTINGS, and without the origin, which PgBouncer does
// not show, of SHOW CONFIG.
type Setting struct {
	Key        string `col:"key"`        // section and name
	Value      string `col:"value"`      // secrets masked
	Default    string `col:"default"`    // without settings
	Changeable string `col:"changeable"` // yes: by a reload; no: needs a restart
	Origin     string `col:"origin"`     // default, file, env, flag, or SET
}

// Fault is a row of SHOW ERRORS: what PostgreSQL answered, and what clients were told by the pooler itself.
type Fault struct {
	Source   string    `col:"source"` // postgresql, pooler
	SQLState string    `col:"sqlstate"`
	Count    uint64    `col:"count"` // since the start
	Last     time.Time `col:"last"`
	Message  string    `col:"message"` // the last one's
	Route    string    `col:"route"`   // the last one's
}

// Recovery is a row of SHOW RECOVERY.
type Recovery struct {
	Trigger string `col:"trigger"` // what made it necessary
	Outcome string `col:"outcome"` // how it ended
	Count   uint64 `col:"count"`   // since the start
	Current int64  `col:"current"` // under way, in rows without outcome
}

// Host is a row of SHOW HOSTS: one PostgreSQL host of the settings.
type Host struct {
	Host        string  `col:"host"`         // as configured
	State       string  `col:"state"`        // up; down; unknown: not tried yet, or not for long
	Address     string  `col:"address"`      // of a name: the one in use; empty: not looked up yet
	Pools       int     `col:"pools"`        // pools that open their servers there
	Servers     int     `col:"servers"`      // places taken there, those being opened or closed included
	MaxBackends int     `col:"max_backends"` // the most there may be
	Connecting  int     `col:"connecting"`   // logins under way
	FailingMs   float64 `col:"failing_ms"`   // since the first failure after the last success; 0: none
	Cause       string  `col:"cause"`        // of the last failure
}

// DNSHost is a row of SHOW DNS_HOSTS: the name of a host, behind PgBouncer's columns how its look-ups fare.
type DNSHost struct {
	Hostname string `col:"hostname"`
	TTL      int64  `col:"ttl"`   // s, until it is looked up again
	Addrs    string `col:"addrs"` // comma-separated, the one in use first
	State    string `col:"state"` // found; stale: the last look-up has failed, and these are the addresses before; none: never found
}

// Performance is a row of SHOW PERFORMANCE.
type Performance struct {
	Metric string  `col:"metric"`
	Value  float64 `col:"value"`
	Unit   string  `col:"unit"`
}
