package e2e

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// balance is what is left when nobody is there.
type balance struct {
	descriptors, goroutines, servers int
	heap, resident                   int // bytes
}

func (b balance) String() string {
	return fmt.Sprintf("%d backends; without them %d descriptors, %d goroutines, heap %d KiB, resident %d KiB", b.servers, b.descriptors, b.goroutines, b.heap>>10, b.resident>>10)
}

// balance waits until all is at rest, and checks that what the pooler says of itself is so, and is nothing. Without backends
// it has no more descriptors and no more goroutines than it had at the start.
func (o *operations) balance(start balance) (b balance) {
	o.t.Helper()
	o.calm = true
	o.settle(0)
	until(o.t, 10*time.Second, "databases that are gone have no backends", func() bool {
		for _, row := range o.table("SHOW POOLS") {
			if row["size"] != "0" && row["database"] != "bench" && row["database"] != "other" {
				return false
			}
		}
		return true
	})
	until(o.t, 10*time.Second, "PostgreSQL has the backends that SHOW SERVERS has", func() bool {
		known := map[string]bool{}
		for _, row := range o.table("SHOW SERVERS") {
			known[row["remote_pid"]] = true
		}
		rows := o.s.Exec(o.t, "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND application_name <> 'pgtest'")
		b.servers = len(rows)
		for _, row := range rows {
			if !known[row[0]] {
				return false
			}
		}
		return len(known) == len(rows)
	})
	o.views()
	o.do("RECONNECT")
	o.do("WAIT_CLOSE")
	until(o.t, 10*time.Second, "PostgreSQL has no session of ours", func() bool { return o.s.Backends(o.t) == 0 })
	status, _ := o.get("/debug/pprof/heap?gc=1")
	if status != http.StatusOK {
		o.t.Errorf("/debug/pprof/heap: %d", status)
	}
	if start.descriptors > 0 {
		settle(o.t, o.p, start.descriptors)
		until(o.t, 10*time.Second, fmt.Sprintf("no more than %d goroutines", start.goroutines), func() bool { return o.gauges() <= start.goroutines })
	}
	b.descriptors, b.resident = descriptors(o.t, o.p.PID()), resident(o.t, o.p.PID())
	b.heap = number(o.t, o.cell("SHOW MEM", "name", "heap", "used"))
	b.goroutines = o.gauges()
	return b
}

// views checks what the console shows of a pooler at rest.
func (o *operations) views() {
	o.t.Helper()
	o.zero("SHOW BACKPRESSURE", "in_flight", "waiting", "oldest_wait_ms")
	o.zero("SHOW ROUTES", "in_flight", "waiting")
	o.zero("SHOW POOLS", "cl_active", "cl_waiting", "cl_active_cancel_req", "cl_waiting_cancel_req", "sv_active", "sv_active_cancel", "sv_being_canceled",
		"sv_login", "maxwait", "maxwait_us", "pinned", "oldest_checkout_ms")
	o.zero("SHOW USERS", "current_client_connections")
	o.zero("SHOW DATABASES", "paused", "disabled", "current_client_connections")
	for _, row := range o.table("SHOW POOLS") {
		if limit := map[string]int{"bench": o.size, "other": 3}[row["database"]]; number(o.t, row["size"]) > limit {
			o.t.Errorf("the pool of %s has %s backends", row["database"], row["size"])
		}
	}
	for _, row := range o.table("SHOW LISTS") {
		switch row["list"] {
		case "used_clients", "login_clients", "used_servers", "dns_pending", "dns_queries":
			if row["items"] != "0" {
				o.t.Errorf("SHOW LISTS: %s %s", row["items"], row["list"])
			}
		}
	}
	for _, row := range o.table("SHOW MEM") {
		if want := map[string]string{"client": "1", "buffers": "0"}[row["name"]]; want != "" && row["used"] != want { // the console
			o.t.Errorf("SHOW MEM: %s of %s", row["used"], row["name"])
		}
	}
	for _, row := range o.table("SHOW STATE") {
		if (row["key"] == "active") != (row["value"] == "yes") {
			o.t.Errorf("SHOW STATE: %v", row)
		}
	}
	if rows := o.table("SHOW CLIENTS"); len(rows) != 1 || rows[0]["activity"] != "console" {
		o.t.Errorf("SHOW CLIENTS: %v", rows)
	}
}

// zero checks columns of a view.
func (o *operations) zero(view string, columns ...string) {
	o.t.Helper()
	for _, row := range o.table(view) {
		for _, c := range columns {
			v, ok := row[c]
			if !ok {
				o.t.Fatalf("%s has no column %s", view, c)
			}
			if f, err := strconv.ParseFloat(v, 64); err != nil || f != 0 {
				o.t.Errorf("%s: %s is %s in %v", view, c, v, row)
			}
		}
	}
}

// idleGauges are 0 while nobody is there.
var idleGauges = regexp.MustCompile(`^pg_kinetic_(route_in_flight|route_waiting|route_saturation|buffer_bytes|pool_waiting|pool_oldest_checkout_ms|` +
	`backend_pinned|not_ready|loop_clients|client_connections\{state="([^c]|c[^o]|con[^s]).*"|pool_connections\{.*state="(active|connecting|recovering)"|` +
	`prepared_statements\{kind="client"|limit_used\{name="(max_clients|max_checkout_waiters|max_unauthenticated)")`)

// gauges checks metrics of a pooler at rest, and returns how many goroutines it has.
func (o *operations) gauges() (goroutines int) {
	o.t.Helper()
	_, text := o.get("/metrics")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		end := strings.LastIndexByte(line, ' ') + 1 // labels may have blanks
		name, value := line[:end], line[end:]
		if name == "go_goroutines " {
			goroutines = number(o.t, value)
		}
		if idleGauges.MatchString(name) && value != "0" {
			o.t.Errorf("/metrics: %s", line)
		}
	}
	if goroutines == 0 {
		o.t.Error("/metrics has no go_goroutines")
	}
	return goroutines
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Error(err)
	}
	return n
}

// get asks for a page on a connection of its own.
func get(t *testing.T, port int, path string) (status int, text string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	r, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	return r.StatusCode, string(b)
}
