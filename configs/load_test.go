package configs

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// write puts a settings file into a directory of the test's and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// mustLoad loads settings that have no problem.
func mustLoad(t *testing.T, path string, environ, flags []string) (*Config, *Origins) {
	t.Helper()
	c, o, problems := Load(path, environ, flags)
	for _, p := range problems {
		t.Error(p)
	}
	if len(problems) > 0 {
		t.FailNow()
	}
	return c, o
}

// problemLines returns problems as text, file names without their directory.
func problemLines(problems []Problem) []string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		if p.Place.Source == SourceFile {
			p.Place.Name = filepath.Base(p.Place.Name)
		}
		lines[i] = p.String()
	}
	return lines
}

// expectProblems compares problems with the expected lines, each a prefix of the whole.
func expectProblems(t *testing.T, problems []Problem, want []string) {
	t.Helper()
	got := problemLines(problems)
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], want[i])
		}
	}
}

func TestDefaults(t *testing.T) {
	c := Default()
	want := Capacity{
		MaxRouteInFlight: 100, MaxRouteWaiters: 1000, MaxCheckoutWaiters: 10000, PoolMaxSize: 20, MaxBackends: 90,
		MaxPinned: MaxPinnedHalf, MaxPreparedStatements: 500, PoolIdleTimeoutMs: 600000, PoolMaxLifetimeMs: 3600000, ConnectTimeoutMs: 3000, CheckoutTimeoutMs: 5000, PauseTimeoutMs: 60000,
		IdleTransactionTimeoutMs: 60000, ClientWriteTimeoutMs: 30000, ClientStallTimeoutMs: 30000, RecoveryTimeoutMs: 5000,
		MaxClientBufferBytes: 1048576, MaxBackendBufferBytes: 1048576, OverloadErrorCode: "53300", ResetQuery: "smart",
	}
	if c.Capacity != want {
		t.Errorf("capacity\n got %+v\nwant %+v", c.Capacity, want)
	}
	server := Server{
		Listen: []string{"127.0.0.1:6432"}, UnixSocketMode: "0777", PoolMode: PoolModeTransaction, MaxClients: 10000,
		MaxUnauthenticated: 1000, Backlog: 4096, LoginTimeoutMs: 60000, TCPKeepaliveMs: 60000, IOUring: true,
		MaxBufferMemory: 256 << 20, MaxPools: 1000, ProxyProtocol: ProxyOff, ProxyProtocolFrom: []string{},
	}
	if !reflect.DeepEqual(c.Server, server) {
		t.Errorf("server\n got %+v\nwant %+v", c.Server, server)
	}
	if len(c.Databases) != 1 || c.Databases[0].Name != "*" || c.Databases[0].Host() != (Host{"tcp", "127.0.0.1:5432"}) {
		t.Errorf("databases: %+v", c.Databases)
	}
	admission := Admission{
		RouteKey:  []string{"database", "user", "application_name", "client_addr", "query_class"},
		MaxRoutes: 10000, FifoSlackMs: 2, MaxConnectsPerHost: 8,
	}
	if len(c.Users) != 0 || len(c.Routes) != 0 || !reflect.DeepEqual(c.Admission, admission) || c.Log != (Log{"info", "text", true, 0}) || c.Drain.TimeoutMs != 30000 {
		t.Errorf("users %v, admission %v, log %v, drain %v", c.Users, c.Admission, c.Log, c.Drain)
	}
	admin := Admin{Listen: "127.0.0.1:6433", Users: []string{}, StatsUsers: []string{}, Database: "pg_kinetic"}
	reaper := Reaper{ServerCheckDelayMs: 30000, DNSMaxTTLMs: 15000, DNSVanished: VanishedRetire, BackendTCPKeepaliveMs: 60000}
	if !reflect.DeepEqual(c.Admin, admin) || c.Reaper != reaper || c.Reload.Watch || c.Capacity.PoolMinIdle != 0 || c.Databases[0].TargetSessionAttrs != SessionAny {
		t.Errorf("admin %v, reaper %v, reload %v, databases %v", c.Admin, c.Reaper, c.Reload, c.Databases)
	}
}

func TestSampleFilesHoldTheDefaults(t *testing.T) {
	for _, path := range []string{samplePath, minimalPath} {
		c, o := mustLoad(t, path, nil, nil)
		want := Default()
		want.Auth.Method = AuthTrust
		if !reflect.DeepEqual(c, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", path, c, want)
		}
		if told := append(Warnings(c, o, 1<<20), Incomplete(c, o)...); len(told) > 0 {
			t.Errorf("%s: %v", path, told)
		}
	}
	_, o := mustLoad(t, samplePath, nil, nil)
	for _, row := range Options() {
		if isList(row.Section) && row.Section != sectionDatabases {
			continue // no entries
		}
		path := strings.Replace(row.Path(), "[]", "[0]", 1)
		if written := o.Set(path); written != (row.Default != nil || path == "databases[0].name") {
			t.Errorf("%s: written in the sample: %v", path, written)
		}
	}
}

const fullYAML = `
server:
  listen: [":6432", "[::1]:7000"]
  max_clients: 2_000
  max_buffer_memory: 1GiB
  unix_socket_mode: 0770
databases:
  - name: app
    hosts: ["/run/postgresql:5433"]
    user: owner
    password: hunter2
    pool_mode: session
    max_clients: 10
    startup_parameters: {search_path: "a, b", Some.Thing: x}
    max_route_in_flight: 7
  - name: "*"
users:
  - name: batch
    pool_max_size: 3
    overload_error_code: 53E00
capacity:
  max_route_waiters: 0
  reset_query: "RESET ALL"
log: {connections: false}
admission:
  route_key: [application_name]
  application_name_pattern: '-(\d+)$'
  application_name_replace: '-${1}n'
routes:
  - name: api
    match:
      database: app
      application_name: ["api-*", ""]
      client_addr: [10.0.0.0/8, "2001:db8::1", unix]
    split_by: [client_addr]
    weight: 3
    on_full: drop_oldest
    max_route_in_flight: 8
    overload_error_code: 53E01
  - match: {query_class: [read, default], user: batch}
    checkout_timeout_ms: 6000
`

const fullTOML = `
server.max_clients = 2_000
server.unix_socket_mode = "0770"
log.connections = false

[server]
listen = [":6432", "[::1]:7000"]
max_buffer_memory = "1GiB"

[[databases]]
name = "app"
hosts = ["/run/postgresql:5433"]
user = "owner"
password = "hunter2"
pool_mode = "session"
max_clients = 10
max_route_in_flight = 7
[databases.startup_parameters]
search_path = "a, b"
"Some.Thing" = "x"
[[databases]]
name = "*"

[[users]]
name = "batch"
pool_max_size = 3
overload_error_code = "53E00"

[capacity]
max_route_waiters = 0
reset_query = "RESET ALL"

[admission]
route_key = ["application_name"]
application_name_pattern = '-(\d+)$'
application_name_replace = '-${1}n'

[[routes]]
name = "api"
split_by = ["client_addr"]
weight = 3
on_full = "drop_oldest"
max_route_in_flight = 8
overload_error_code = "53E01"
[routes.match]
database = "app"
application_name = ["api-*", ""]
client_addr = ["10.0.0.0/8", "2001:db8::1", "unix"]
[[routes]]
match.query_class = ["read", "default"]
match.user = "batch"
checkout_timeout_ms = 6000
`

func TestFormatsGiveTheSame(t *testing.T) {
	c, _ := mustLoad(t, write(t, "full.yaml", fullYAML), nil, nil)
	fromTOML, _ := mustLoad(t, write(t, "full.toml", strings.Replace(fullTOML, "server.max_clients = 2_000\nserver.unix_socket_mode = \"0770\"\n", "", 1)), nil,
		[]string{"--server.max-clients=2000", "--server.unix-socket-mode=0770"})
	if !reflect.DeepEqual(c, fromTOML) {
		t.Errorf("\nYAML %+v\nTOML %+v", c, fromTOML)
	}
	app := c.Database("app")
	if app.Host() != (Host{"unix", "/run/postgresql/.s.PGSQL.5433"}) || app.Password.Reveal() != "hunter2" || *app.MaxClients != 10 {
		t.Errorf("app: %+v", app)
	}
	if want := map[string]string{"search_path": "a, b", "Some.Thing": "x"}; !reflect.DeepEqual(app.StartupParameters, want) {
		t.Errorf("startup_parameters: %v", app.StartupParameters)
	}
	if c.Server.MaxBufferMemory != 1<<30 || c.Server.SocketMode() != 0o770 || c.Server.MaxClients != 2000 || c.Log.Connections {
		t.Errorf("server %+v, log %+v", c.Server, c.Log)
	}
	if *c.User("batch").OverloadErrorCode != "53E00" || c.Capacity.ResetQuery != "RESET ALL" || c.Capacity.MaxRouteWaiters != 0 {
		t.Errorf("users %+v, capacity %+v", c.Users, c.Capacity)
	}
}

func TestEmptyFilesAreValid(t *testing.T) {
	for name, text := range map[string]string{
		"empty.yaml": "", "empty.toml": "", "comment.yaml": "# nothing\n", "marker.yaml": "---\n", "null.yaml": "null\n",
		"sections.yaml": "server:\n# listen: []\ndatabases:\nusers: []\n", "bom.yaml": "\xef\xbb\xbflog:\n  level: info\n",
		"bom.toml": "\xef\xbb\xbf[log]\nlevel = 'info'\n", "comment.toml": "# nothing\n",
	} {
		if c, _ := mustLoad(t, write(t, name, text), nil, nil); !reflect.DeepEqual(c, Default()) {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

func TestLayers(t *testing.T) {
	path := write(t, "l.yaml", "capacity:\n  max_route_in_flight: 1\n  pool_max_size: 2\n  max_backends: 3\nserver:\n  listen: [\":1\"]\ndatabases:\n  - name: file\n")
	environ := []string{
		"HOME=/root", "PG_KINETIC_CAPACITY__POOL_MAX_SIZE=4", "PG_KINETIC_CAPACITY__MAX_BACKENDS=5",
		"PG_KINETIC_SERVER__LISTEN=[::1]:2, :3", "PG_KINETIC_LOG__CONNECTIONS=false",
		`PG_KINETIC_DATABASES=[{"name":"env","password_env":"PG_KINETIC_SECRET","startup_parameters":{"a":"\ud83d\ude00"}}]`,
		"PG_KINETIC_SECRET=s3cret", "PG_KINETIC_PORT=tcp://10.0.0.1:6432", "PG_KINETIC_SERVICE_HOST=10.0.0.1",
		"PG_KINETIC_RO_PORT_6432_TCP_ADDR=10.0.0.2",
	}
	flags := []string{"--capacity.max-backends=6", "--server.loops", "2", "--log.level=warn", "--capacity.reset_query=discard"}
	c, o := mustLoad(t, path, environ, flags)
	if c.Capacity.MaxRouteInFlight != 1 || c.Capacity.PoolMaxSize != 4 || c.Capacity.MaxBackends != 6 || c.Server.Loops != 2 {
		t.Errorf("capacity %+v", c.Capacity)
	}
	if !reflect.DeepEqual(c.Server.Listen, []string{"[::1]:2", ":3"}) || c.Log.Connections || c.Capacity.ResetQuery != "discard" {
		t.Errorf("listen %v, log %v", c.Server.Listen, c.Log)
	}
	if len(c.Databases) != 1 || c.Databases[0].Name != "env" || c.Databases[0].Password.Reveal() != "s3cret" || c.Databases[0].StartupParameters["a"] != "😀" {
		t.Errorf("databases %+v", c.Databases)
	}
	for path, want := range map[string]string{
		"capacity.max_route_in_flight": "l.yaml:2:24", "capacity.pool_max_size": "environment PG_KINETIC_CAPACITY__POOL_MAX_SIZE",
		"capacity.max_backends": "--capacity.max-backends", "drain.timeout_ms": "default",
		"databases[0].name": "environment PG_KINETIC_DATABASES", "databases[0].hosts": "default",
	} {
		if got := filepath.Base(o.Of(path).String()); got != want {
			t.Errorf("origin of %s: %s, want %s", path, got, want)
		}
	}
}

func TestListFlagsAddUp(t *testing.T) {
	c, _ := mustLoad(t, "", []string{`PG_KINETIC_SERVER__LISTEN=["127.0.0.1:1"]`}, []string{"--server.listen=:2,:3", `--server.listen=[":4"]`})
	if !reflect.DeepEqual(c.Server.Listen, []string{":2", ":3", ":4"}) {
		t.Errorf("listen: %v", c.Server.Listen)
	}
	c, _ = mustLoad(t, "", []string{"PG_KINETIC_SERVER__LISTEN=", "PG_KINETIC_SERVER__UNIX_SOCKET_DIR=/tmp"}, nil)
	if len(c.Server.Listen) != 0 || c.Server.SocketPath(c.Server.SocketPort()) != "/tmp/.s.PGSQL.6432" {
		t.Errorf("server: %+v", c.Server)
	}
}
