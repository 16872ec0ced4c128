package e2e

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/testcert"
)

// settings is the n-th revision. Revisions differ from each other in every section, but not in what the backends of the
// database bench are made of.
func (o *operations) settings(n int, watch bool) string {
	pick := func(words ...string) string { return words[n%len(words)] }
	listen := pick(fmt.Sprintf("[%q]", o.p.Addr()), fmt.Sprintf("[%q, \"127.0.0.1:%d\"]", o.p.Addr(), o.second))
	inFlight := 50 + n%20
	if o.mode == "session" {
		inFlight = 1000 + n%20 // a permit is held for as long as a session
	}
	return fmt.Sprintf(`server: {listen: %s, unix_socket_dir: %q, unix_socket_mode: %q, pool_mode: %s, max_clients: %d,
  max_unauthenticated: %d, login_timeout_ms: %d, backlog: %d, tcp_keepalive_ms: %d, max_buffer_memory: %dMiB}
`, listen, o.s.SocketDir(), pick("0777", "0770", "0700"), o.mode, 3000+n, 500+n, 60000+n, 1000+n, 30000+1000*(n%7), 64+n%3) +
		fmt.Sprintf(`databases:
- {name: bench, hosts: [%q], pool_max_size: %d, pool_min_idle: %d, max_clients: %d}
- {name: other, hosts: [%[1]q], dbname: postgres, pool_max_size: 3}
`, o.s.Addr(), o.size, n%4, 2700+n) +
		pick("", fmt.Sprintf("- {name: spare%d, hosts: [%q], dbname: postgres, user: postgres, pool_max_size: 2, pool_min_idle: 1, connect_query: \"SELECT %d\"}\n",
			n%5, o.s.Addr(), n)) +
		fmt.Sprintf("users:\n- {name: postgres, max_clients: %d}\n", 2800+n) +
		pick("", fmt.Sprintf("- {name: guest%d, pool_mode: statement}\n", n%3)) +
		fmt.Sprintf("routes:\n- {name: load-%d, match: {database: bench}, max_route_in_flight: %d, max_route_waiters: %d, checkout_timeout_ms: %d, weight: %d}\n",
			n%3, inFlight, 1000+n, 50000+n, 1+n%4) +
		pick("", "- {match: {application_name: \"report-*\"}, max_route_in_flight: 3}\n") +
		fmt.Sprintf(`capacity: {max_route_in_flight: %d, max_route_waiters: %d, max_checkout_waiters: %d, checkout_timeout_ms: %d, pause_timeout_ms: %d,
  query_timeout_ms: %d, idle_client_timeout_ms: %d, idle_transaction_timeout_ms: %d, max_prepared_statements: %d, max_backends: %d,
  pool_idle_timeout_ms: %d, pool_max_lifetime_ms: %d, max_pinned: %d, client_write_timeout_ms: %d}
`, 250+n%50, 2000+n, 9000+n, 50000+n, 60000+n, n%2*60000, n%3*600000, 60000+n, 100+50*(n%5), 250+n%10, 600000+n, 3600000+n, 2+n%3, 30000+n) +
		fmt.Sprintf("admission: {fifo_slack_ms: %d, max_connects_per_host: %d, max_routes: %d}\n", n%4, 6+n%4, 5000+n) +
		fmt.Sprintf("auth: {method: trust}\ntls: {client_mode: %s, client_cert_file: %q, client_key_file: %q, min_version: %s}\n",
			pick("allow", "prefer"), o.cert, o.key, pick(`"1.2"`, `"1.3"`)) +
		fmt.Sprintf("reaper: {server_check_query: %q, server_check_delay_ms: %d, backend_tcp_keepalive_ms: %d}\n", pick("", "SELECT 1"), 200+n%3*100, 30000+1000*(n%5)) +
		fmt.Sprintf("log: {level: %s, format: %s, connections: %s, slow_query_ms: %d}\n", pick("info", "debug", "warn"), pick("text", "json"), pick("true", "false"), n%3*50) +
		fmt.Sprintf("drain: {timeout_ms: %d}\nreload: {watch: %t}\n", 30000+n, watch) +
		fmt.Sprintf("admin: {listen: \"127.0.0.1:%d\", users: [postgres], stats_users: [viewer%d], pprof: %s}\n", o.http[n/2%2], n%3, pick("true", "false"))
}

// next is the next revision.
func (o *operations) next() int {
	o.revisions++
	return o.revisions
}

func (o *operations) write(n int, watch bool) {
	o.t.Helper()
	if n%5 == 0 {
		o.newCertificate()
	}
	// As an editor or a configuration's tool does it: at no time is there half a file.
	fresh := o.p.ConfigPath() + ".new"
	if err := os.WriteFile(fresh, []byte(o.settings(n, watch)), 0o644); err != nil {
		o.t.Fatal(err)
	}
	if err := os.Rename(fresh, o.p.ConfigPath()); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operations) newCertificate() {
	o.t.Helper()
	c := o.authority.Issue(testcert.Request{Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	var err error
	if o.cert, o.key, err = c.Write(o.dir, "server"); err != nil {
		o.t.Fatal(err)
	}
	o.serial = c.X509.SerialNumber.String()
}

// settle goes to a revision by RELOAD.
func (o *operations) settle(n int) {
	o.t.Helper()
	o.reload(n, false, func() { o.do("RELOAD") })
}

func (o *operations) reloadByCommand() {
	o.reload(o.next(), false, func() { o.do("RELOAD") })
	o.done["reload"]++
}

func (o *operations) reloadBySignal() {
	o.reload(o.next(), false, func() { signal(o.t, o.p, syscall.SIGHUP) })
	o.done["reload"]++
}

// reloadByWatch are two reloads: one has the file watched, the next needs no word.
func (o *operations) reloadByWatch() {
	o.reload(o.next(), true, func() { o.do("RELOAD") })
	o.reload(o.next(), false, func() {})
	o.done["reload"] += 2
}

// reload goes to a revision, and checks that it holds and that no backend of bench was exchanged for it.
func (o *operations) reload(n int, watch bool, trigger func()) {
	o.t.Helper()
	before := o.backends()
	o.write(n, watch)
	trigger()
	until(o.t, 10*time.Second, fmt.Sprintf("revision %d holds", n), func() bool {
		return o.cell("SHOW CONFIG", "key", "drain.timeout_ms", "value") == fmt.Sprint(30000+n)
	})
	o.revision = n
	if o.calm {
		after := o.backends()
		for pid := range before {
			if !after[pid] {
				o.t.Errorf("revision %d: backend %s is gone", n, pid)
			}
		}
	}
	o.holds(n)
}

// holds checks effects of a revision beyond its being shown.
func (o *operations) holds(n int) {
	o.t.Helper()
	if got := o.cell("SHOW LIMITS", "name", "max_clients", "value"); got != fmt.Sprint(3000+n) {
		o.t.Errorf("revision %d: max_clients is %s", n, got)
	}
	for i := range 5 {
		name := fmt.Sprintf("spare%d", i)
		if found, want := o.cell("SHOW DATABASES", "name", name, "name") != "", n%2 == 1 && n%5 == i; found != want {
			o.t.Errorf("revision %d: database %s is there: %t", n, name, found)
		}
	}
	if status, _ := o.get("/livez"); status != http.StatusOK {
		o.t.Errorf("revision %d: /livez: %d", n, status)
	}
	c, err := pgwire.Open("tcp", fmt.Sprintf("127.0.0.1:%d", o.second))
	if err == nil {
		_, err = c.Login(0, "user", "postgres", "database", "other")
		c.Close()
	}
	if (err == nil) != (n%2 == 1) {
		o.t.Errorf("revision %d: the second address: %v", n, err)
	}
	o.handshake(n)
}

// handshake checks that a new client is shown the certificate of the last reload.
func (o *operations) handshake(n int) {
	o.t.Helper()
	c := pgwire.Dial(o.t, "tcp", o.p.Addr())
	defer c.Close()
	if err := c.Secure(&tls.Config{RootCAs: o.authority.Pool(), ServerName: "127.0.0.1"}); err != nil {
		o.t.Errorf("revision %d: TLS: %v", n, err)
		return
	}
	if got := c.Net.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(); got != o.serial {
		o.t.Errorf("revision %d: certificate %s, want %s", n, got, o.serial)
	}
	if _, err := c.Login(0, "user", "postgres", "database", "other"); err != nil && (o.calm || !lost(err)) {
		o.t.Errorf("revision %d: a login by TLS: %v", n, err)
	}
}

// backends are PostgreSQL's pids of the sessions of bench.
func (o *operations) backends() map[string]bool {
	o.t.Helper()
	if !o.calm {
		return nil
	}
	pids := map[string]bool{}
	for _, row := range o.s.Exec(o.t, "SELECT pid FROM pg_stat_activity WHERE datname = 'bench' AND backend_type = 'client backend'") {
		pids[row[0]] = true
	}
	return pids
}

// get asks for a page of the present address of HTTP.
func (o *operations) get(path string) (status int, text string) {
	o.t.Helper()
	return get(o.t, o.http[o.revision/2%2], path)
}

// lost tells whether an error is one that a client may see because PostgreSQL is away.
func lost(err error) bool {
	switch code(err) {
	case "57P01", "57P02", "57P03", "08006", "08003", "53300":
		return true
	}
	return false
}

// table is a view, by the names of its columns.
func (o *operations) table(view string) (rows []map[string]string) {
	o.t.Helper()
	r, err := o.command(view)
	if err != nil {
		o.t.Fatalf("%s: %v", view, err)
	}
	for _, values := range r.Rows {
		row := map[string]string{}
		for i, f := range r.FieldDescriptions {
			row[f.Name] = string(values[i])
		}
		rows = append(rows, row)
	}
	return rows
}

// cell is a value of a view's row, "" if there is none.
func (o *operations) cell(view, key, is, column string) string {
	o.t.Helper()
	for _, row := range o.table(view) {
		if row[key] == is {
			return row[column]
		}
	}
	return ""
}

// command runs one on the console.
func (o *operations) command(sql string) (*pgconn.Result, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), time.Minute)
	defer cancel()
	all, err := o.console.Exec(ctx, sql).ReadAll()
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// do is a command that must succeed.
func (o *operations) do(sql string) {
	o.t.Helper()
	if _, err := o.command(sql); err != nil {
		o.t.Errorf("%s: %v", sql, err)
	}
}
