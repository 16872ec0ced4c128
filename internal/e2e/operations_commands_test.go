package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"pgkinetic/internal/pgwire"
)

func (o *operations) pauseAll() {
	o.t.Helper()
	o.do("PAUSE")
	o.unready("paused")
	o.still()
	o.do("RESUME")
	o.done["pause"]++
}

func (o *operations) pauseDatabase() {
	o.t.Helper()
	o.do("PAUSE bench")
	o.still()
	o.do("RESUME bench")
	o.done["pause"]++
}

func (o *operations) pauseRoute() {
	o.t.Helper()
	name := fmt.Sprintf("load-%d", o.revision%3)
	o.do("PAUSE ROUTE " + name)
	if got := o.cell("SHOW BACKPRESSURE", "route", name, "in_flight"); got != "0" && got != "" {
		o.t.Errorf("%s requests in flight on the paused route %s", got, name)
	}
	o.do("RESUME ROUTE " + name)
	o.done["pause"]++
}

// still checks that nothing of bench runs in PostgreSQL.
func (o *operations) still() {
	o.t.Helper()
	if !o.calm {
		return
	}
	if got := o.s.Value(o.t, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'bench' AND state <> 'idle'"); got != "0" {
		o.t.Errorf("%s sessions are busy in the paused database", got)
	}
}

func (o *operations) unready(reason string) {
	o.t.Helper()
	if status, text := o.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(text, reason) {
		o.t.Errorf("/readyz: %d %s, want 503 and %s", status, text, reason)
	}
}

func (o *operations) suspend() {
	o.t.Helper()
	o.do("SUSPEND")
	o.unready("suspended")
	o.do("RESUME")
	o.done["suspend"]++
}

// reconnect has all backends of bench exchanged.
func (o *operations) reconnect() {
	o.t.Helper()
	before := o.backends()
	o.do("RECONNECT bench")
	o.do("WAIT_CLOSE bench")
	if o.calm {
		until(o.t, 5*time.Second, "the old backends are gone", func() bool {
			now := o.backends()
			for pid := range before {
				if now[pid] {
					return false
				}
			}
			return true
		})
	}
	o.done["reconnect"]++
}

// victim is a client in a transaction of the database other, nil if PostgreSQL is away.
func (o *operations) victim(name string) *pgwire.Conn {
	o.t.Helper()
	c := pgwire.Dial(o.t, "tcp", o.p.Addr())
	_, err := c.Login(0, "user", "postgres", "database", "other", "application_name", name)
	if err == nil {
		_, err = c.Exec("BEGIN")
	}
	if err != nil {
		c.Close()
		if o.calm || !lost(err) {
			o.t.Errorf("a client of other: %v", err)
		}
		return nil
	}
	return c
}

// parted checks that a victim has been told, or that PostgreSQL has left it.
func (o *operations) parted(what string, c *pgwire.Conn) {
	o.t.Helper()
	if got := ends(o.t, c); got != "FATAL 57P01" && (o.calm || !slices.Contains([]string{"FATAL 57P02", "FATAL 08006"}, got)) {
		o.t.Errorf("%s: the client ended with %q, want FATAL 57P01", what, got)
	}
	c.Close()
}

func (o *operations) killClient() {
	o.t.Helper()
	const name = "victim"
	c := o.victim(name)
	if c == nil {
		return
	}
	id := o.cell("SHOW CLIENTS", "application_name", name, "id")
	if _, err := o.command("KILL_CLIENT " + id); err != nil && o.calm { // else PostgreSQL may have been faster
		o.t.Errorf("KILL_CLIENT %s: %v", id, err)
	}
	o.parted("KILL_CLIENT", c)
	o.done["kill client"]++
}

func (o *operations) killDatabase() {
	o.t.Helper()
	c := o.victim("killed")
	o.do("KILL other")
	if c != nil {
		o.parted("KILL", c)
	}
	o.do("RESUME other")
	if c := o.victim("after KILL"); c != nil {
		c.Close()
	}
	o.done["kill"]++
}

func (o *operations) disable() {
	o.t.Helper()
	o.do("DISABLE other")
	c := pgwire.Dial(o.t, "tcp", o.p.Addr())
	if _, err := c.Login(0, "user", "postgres", "database", "other"); code(err) != "57P03" {
		o.t.Errorf("a login to the disabled database: %v", err)
	}
	c.Close()
	o.do("ENABLE other")
	if c := o.victim("after ENABLE"); c != nil {
		c.Close()
	}
	o.done["disable"]++
}

// set changes what the next reload takes back.
func (o *operations) set() {
	o.t.Helper()
	o.do(fmt.Sprintf("SET capacity.max_route_waiters = %d", 3000+o.revision))
	o.do(fmt.Sprintf("SET ROUTE load-%d weight = 7", o.revision%3))
	if got := o.cell("SHOW SETTINGS", "key", "capacity.max_route_waiters", "origin"); got != "set at run time" {
		o.t.Errorf("max_route_waiters after SET comes from %q", got)
	}
	o.done["set"]++
}

// look asks for everything that there is to be seen.
func (o *operations) look() {
	o.t.Helper()
	for _, view := range strings.Fields("STATS STATS_TOTALS STATS_AVERAGES TOTALS SERVERS CLIENTS POOLS LISTS USERS DATABASES FDS SOCKETS " +
		"ACTIVE_SOCKETS CONFIG MEM VERSION STATE BACKPRESSURE LIMITS ROUTES PERFORMANCE PINNING PREPARED RECOVERY ERRORS SETTINGS") {
		o.table("SHOW " + view)
	}
	if status, text := o.get("/metrics"); status != http.StatusOK || !strings.Contains(text, "pg_kinetic_build_info") {
		o.t.Errorf("/metrics: %d", status)
	}
	o.do("EXPLAIN ADMISSION database=bench user=postgres query='SELECT 1'")
	o.done["look"]++
}
