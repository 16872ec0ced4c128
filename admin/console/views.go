package console

import (
	"iter"
	"slices"
	"strings"

	"pgkinetic/admin/view"
)

// viewOf is one view: what SHOW names.
type viewOf struct {
	name    string
	about   string // for the documentation
	columns []view.Column
	admin   bool // for users of admin.users only
	rows    func(*session) iter.Seq[row]
}

// list is a view whose rows come all at once.
func list[T any](name, about string, rows func(*session) []T) viewOf {
	return stream(name, about, func(s *session) iter.Seq[T] { return slices.Values(rows(s)) })
}

// stream is a view whose rows are made while they are sent.
func stream[T any](name, about string, rows func(*session) iter.Seq[T]) viewOf {
	columns := view.Columns(*new(T))
	return viewOf{name: name, about: about, columns: columns, rows: func(s *session) iter.Seq[row] { return viewRows(columns, rows(s)) }}
}

// onlyAdmin is v for users of admin.users.
func onlyAdmin(v viewOf) viewOf {
	v.admin = true
	return v
}

// views are all of them, in the order of the documentation: PgBouncer's, then ours.
// Names and columns of PgBouncer's are those of its documentation, "Admin console".
var views = []viewOf{
	list("STATS", "sums since the start and averages of the last minute, per database", stats),
	list("STATS_TOTALS", "the sums of STATS", statsTotals),
	list("STATS_AVERAGES", "the averages of STATS", statsAverages),
	list("TOTALS", "STATS over all databases, one figure per row", totals),
	stream("SERVERS", "connections to PostgreSQL", func(s *session) iter.Seq[view.Server] { return s.Control.Servers() }),
	stream("CLIENTS", "connections of clients", func(s *session) iter.Seq[view.Client] { return s.Control.Clients() }),
	list("POOLS", "pools: clients, servers, the longest wait", func(s *session) []view.Pool { return s.Control.Pools() }),
	list("LISTS", "how many there are of what", func(s *session) []view.Item { return s.Control.Lists() }),
	list("USERS", "users of the settings, and those who have clients", func(s *session) []view.User { return s.Control.Users() }),
	list("DATABASES", "database entries, and the names that clients of `*` have asked for",
		func(s *session) []view.Database { return s.Control.Databases() }),
	onlyAdmin(stream("FDS", "descriptors in use", func(s *session) iter.Seq[view.FD] { return s.Control.FDs() })),
	stream("SOCKETS", "clients and servers with what their buffers hold",
		func(s *session) iter.Seq[view.Socket] { return s.Control.Sockets() }),
	stream("ACTIVE_SOCKETS", "those of SOCKETS whose buffers hold something, or that are within a message", activeSockets),
	list("CONFIG", "settings as they hold now", config),
	list("MEM", "memory by use", func(s *session) []view.Mem { return s.Control.Mem() }),
	list("VERSION", "the version", version),
	list("STATE", "whether the process is active, paused or suspended", state),

	list("BACKPRESSURE", "who is let in, waits and is refused, per route", func(s *session) []view.Backpressure { return s.Control.Backpressure() }),
	list("LIMITS", "limits: how much of each is in use, its peak, where it comes from", func(s *session) []view.Limit { return s.Control.Limits() }),
	list("ROUTES", "live routes and what holds for them", func(s *session) []view.Route { return s.Control.Routes() }),
	list("PERFORMANCE", "loops and their load, rates, latencies, memory", func(s *session) []view.Performance { return s.Control.Performance() }),
	list("PINNING", "clients that keep a server outside a transaction, and why", func(s *session) []view.Pin { return s.Control.Pinning() }),
	stream("PREPARED", "prepared statements, per client and server", func(s *session) iter.Seq[view.Prepared] { return s.Control.Prepared() }),
	list("HOSTS", "the PostgreSQL hosts: whether they answer, since when not and why, what is open there", func(s *session) []view.Host { return s.Control.Hosts() }),
	list("DNS_HOSTS", "names of hosts: their addresses, when they are looked up again", func(s *session) []view.DNSHost { return s.Control.DNSHosts() }),
	list("RECOVERY", "how servers were brought back into order", func(s *session) []view.Recovery { return s.Control.Recovery() }),
	list("ERRORS", "what PostgreSQL answered, and what clients were told by the pooler", func(s *session) []view.Fault { return s.Control.Errors() }),
	list("SETTINGS", "CONFIG, and where each value comes from", func(s *session) []view.Setting { return s.Control.Config() }),
}

// absent are PgBouncer's views of what is not in this pooler, and what there is
// instead.
var absent = map[string]string{
	"DNS_ZONES":  "Names are looked up when their TTL is over, without a look at their zone; see SHOW DNS_HOSTS.",
	"PEERS":      "One process uses all processors, so that there are no peers.",
	"PEER_POOLS": "One process uses all processors, so that there are no peers.",
}

// show makes the statement that shows v.
func show(v viewOf) *statement {
	return &statement{
		fields: fieldsOf(v.columns),
		run: func(s *session, _ *command) (result, error) {
			if all, _ := s.rights(); v.admin && !all {
				return result{}, forbidden("SHOW " + v.name)
			}
			return result{tag: "SHOW", rows: v.rows(s)}, nil
		},
	}
}

// parseShow reads what follows SHOW.
func parseShow(p *parser) (*statement, error) {
	if !p.more() {
		return nil, syntaxError("SHOW what?")
	}
	name := p.peek().text
	upper := strings.ToUpper(name)
	if i := slices.IndexFunc(views, func(v viewOf) bool { return v.name == upper }); i >= 0 {
		p.next()
		return show(views[i]), nil
	}
	if instead, ok := absent[upper]; ok {
		return nil, &problem{code: codeUnsupported, message: "there is no SHOW " + upper + " here", detail: instead, hint: hintHelp}
	}
	if p.accept("HELP") {
		return help(), nil
	}
	parameter, err := p.parameterName()
	if err != nil {
		return nil, err
	}
	if of := find(p.s.parameters, parameter); of != nil {
		return showParameter(of), nil
	}
	names := make([]string, len(views))
	for i, v := range views {
		names[i] = v.name
	}
	return nil, unknown("view", name, names)
}
