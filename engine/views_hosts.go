package engine

// What is to be seen of PostgreSQL hosts and of their names.

import (
	"slices"
	"strings"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
)

// Hosts shows those of the settings, and those at which servers of former settings
// still are, by name. Any goroutine.
func (e *Engine) Hosts() []view.Host {
	r, now, cfg := e.registry, reactor.Now(), e.settings.Load().cfg
	r.mu.Lock()
	defer r.mu.Unlock()
	pools := map[*host]int{}
	for _, p := range r.pools {
		pools[p.host()]++
	}
	var rows []view.Host
	for _, h := range r.sortedHosts() {
		n := h.adm.Counts()
		row := view.Host{
			Host: h.name, State: h.word(now, h.down(now, cfg)), Address: h.present(), Pools: pools[h],
			Servers: n.Size, MaxBackends: n.Max, Connecting: n.Connecting, FailingMs: float64(h.state.FailingFor(now)) / float64(ms),
		}
		if cause := h.state.Cause(); cause != nil {
			row.Cause = cause.Error()
		}
		rows = append(rows, row)
	}
	return rows
}

func (h *host) word(now int64, down bool) string {
	switch {
	case down:
		return "down"
	case h.state.FailingFor(now) > 0 || !h.state.Answered():
		return "unknown"
	}
	return "up"
}

// present is the address in use of a host that is given by name.
func (h *host) present() string {
	if r := h.address.Load(); r != nil {
		return r.address()
	}
	return ""
}

// DNSHosts shows the hosts that are given by name. Any goroutine.
func (e *Engine) DNSHosts() []view.DNSHost {
	r, now := e.registry, reactor.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	var rows []view.DNSHost
	for _, h := range r.sortedHosts() {
		if h.fixed {
			continue
		}
		name, _ := splitHost(h.target)
		row := view.DNSHost{Hostname: name, State: "none"}
		if r := h.address.Load(); r != nil {
			row.State = "found"
			if r.stale {
				row.State = "stale"
			}
			row.TTL = max(r.until.Load()-now, 0) / (1000 * ms)
			at := max(slices.Index(r.addrs, r.address()), 0)
			row.Addrs = strings.Join(slices.Concat(r.addrs[at:], r.addrs[:at]), ",")
		}
		rows = append(rows, row)
	}
	return rows
}
