package engine

// What a reload cannot change in a running process, told honestly.

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"pgkinetic/configs"
)

// Notice is a setting whose new value does not hold, or not for everybody, until
// what Effect says has happened.
type Notice struct{ Setting, Effect string }

func (n Notice) String() string { return n.Setting + ": " + n.Effect }

const (
	needsRestart  = "needs a restart"
	forNewPools   = "takes effect for new pools; those that exist go on as they are"
	forNewClients = "takes effect for clients that connect from now on"
	forNewLogins  = "takes effect for clients that log in from now on"
	entryGone     = "is gone for new logins; clients that are logged in stay"
)

// liveSections hold at once.
var liveSections = []string{"capacity", "admission", "auth", "tls", "reaper"}

// liveSettings are those of the other sections that hold at once, or for logins
// from now on.
var liveSettings = map[string]string{
	"server.max_clients": "", "server.max_pools": "", "server.pool_mode": forNewLogins,
	"server.proxy_protocol": "", "server.proxy_protocol_from": "", "server.pid_file": "",
	"server.listen": "", "server.unix_socket_dir": "", "server.unix_socket_mode": "", "server.backlog": "",
	"server.login_timeout_ms": "", "server.max_unauthenticated": "", "server.max_buffer_memory": "",
	"server.tcp_keepalive_ms": forNewClients, "server.tcp_user_timeout_ms": forNewClients,
	"log.level": "", "log.format": "", "log.connections": "", "log.slow_query_ms": "", "reload.watch": "", "drain.timeout_ms": "",
	"admin.listen": "", "admin.pprof": "", "admin.users": "", "admin.stats_users": "", "admin.database": "",
}

// needsRestartFor tells whether a setting holds from a start on only.
func needsRestartFor(o *configs.Option) bool {
	_, live := liveSettings[o.Path()]
	return o.Scope == configs.ScopeProcess && !slices.Contains(liveSections, o.Section) && !live
}

// unapplied compares a new configuration with what the process runs under.
func (e *Engine) unapplied(old, next *configs.Config) (notices []Notice) {
	for _, o := range configs.Options() {
		if o.Scope != configs.ScopeProcess || slices.Contains(liveSections, o.Section) {
			continue
		}
		effect, live := liveSettings[o.Path()]
		before := e.cfg // as at the start
		if live {
			before = old
		} else {
			effect = needsRestart
		}
		if effect != "" && !reflect.DeepEqual(configField(before, o), configField(next, o)) {
			notices = append(notices, Notice{o.Path(), effect})
		}
	}
	for i := range next.Users {
		u := &next.Users[i]
		before := configs.PoolMode("")
		if was := old.User(u.Name); was != nil {
			before = was.PoolMode
		}
		if before != u.PoolMode {
			notices = append(notices, Notice{fmt.Sprintf("users[%s].pool_mode", u.Name), forNewLogins})
		}
	}
	return append(notices, e.registry.unapplied(next)...)
}

// configField gives the value of a setting that is in no list.
func configField(c *configs.Config, o *configs.Option) any {
	return field(field(reflect.ValueOf(c).Elem(), o.Section), o.Key).Interface()
}

// unapplied compares each pool that exists with what it would be made of now.
func (r *registry) unapplied(next *configs.Config) []Notice {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := map[Notice]bool{}
	for _, p := range r.pools {
		name := p.key.entry
		note := func(key, effect string, differs bool) {
			if differs {
				found[Notice{strings.TrimSuffix(fmt.Sprintf("databases[%s].%s", name, key), "."), effect}] = true
			}
		}
		i := slices.IndexFunc(next.Databases, func(d configs.Database) bool { return d.Name == name })
		if i < 0 {
			note("", entryGone, true)
			continue
		}
		was, is := p.entry(), &next.Databases[i]
		note("dbname", forNewLogins, was.DBName != is.DBName)
		note("user", forNewLogins, was.User != is.User)
		note("pool_mode", forNewLogins, was.PoolMode != is.PoolMode)
		resets := next.Effective(is, next.User(p.key.user), nil).ResetQuery
		if p.resetQuery != resets {
			found[Notice{"capacity.reset_query", forNewPools}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b Notice) int { return strings.Compare(a.String(), b.String()) })
}
