// Package hba reads who may log in, and how, from files in the syntax of
// PostgreSQL's pg_hba.conf, and which names of certificates stand for which users
// from files in that of pg_ident.conf (PostgreSQL documentation, "The pg_hba.conf
// File" and "User Name Maps"). docs/hba.md tells users what is supported.
//
// What is loaded is never changed: Rules and Maps may be used by all loops at
// once, and a reload makes new ones.
package hba

import (
	"net/netip"
	"slices"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// connection is the first word of a rule: which kinds of connection it is for.
type connection uint8

const (
	local connection = iota
	host
	hostSSL
	hostNoSSL
	hostGSS   // matches nothing: GSSAPI encryption is not offered
	hostNoGSS // the same as host
)

var connectionNames = [...]string{
	local: "local", host: "host", hostSSL: "hostssl", hostNoSSL: "hostnossl", hostGSS: "hostgssenc", hostNoGSS: "hostnogssenc",
}

// rule is one line of the rules: for whom it is, and what then applies.
type rule struct {
	connection connection
	databases  names
	users      names
	anywhere   bool           // any address
	networks   []netip.Prefix // else these; IPv4-mapped ones unmapped
	line       Line
}

// Line is one line of the rules: what it demands of the clients that it is for, and
// where it stands (its file, and the first of its lines there).
type Line struct {
	auth.Decision
	Place configs.Place
}

// Rules are the lines of an HBA file and of those that it includes, in order.
type Rules struct{ rules []rule }

var _ auth.HBA = (*Rules)(nil)

// Find returns the first line that is for a client, nil where there is none. The
// line belongs to the Rules and is read only. Find allocates nothing.
func (r *Rules) Find(p *auth.Peer) *Line {
	addr := p.Addr.Unmap().WithZone("")
	for i := range r.rules {
		rule := &r.rules[i]
		if rule.reaches(addr, p.TLS) && rule.databases.match(p.Database, p.User) && rule.users.match(p.User, p.User) {
			return &rule.line
		}
	}
	return nil
}

// Match returns what the line of Find demands; ok is false where there is none.
func (r *Rules) Match(p *auth.Peer) (d auth.Decision, ok bool) {
	line := r.Find(p)
	if line == nil {
		return auth.Decision{}, false
	}
	return line.Decision, true
}

// reaches tells whether the rule is for a connection from an address, which is
// invalid for one through a Unix socket.
func (r *rule) reaches(addr netip.Addr, tls bool) bool {
	switch r.connection {
	case local:
		return !addr.IsValid()
	case hostGSS:
		return false
	case hostSSL:
		if !tls {
			return false
		}
	case hostNoSSL:
		if tls {
			return false
		}
	case host, hostNoGSS:
	}
	return addr.IsValid() && (r.anywhere ||
		slices.ContainsFunc(r.networks, func(network netip.Prefix) bool { return network.Contains(addr) }))
}
