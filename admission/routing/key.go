package routing

import (
	"net/netip"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Key is what a request shows. It is comparable.
type Key struct {
	Database    string // as the client asked for it
	User        string // as the client logged in
	Application string // application_name, as Table.Normalize returned it
	Addr        netip.Addr
	Class       Class
}

// ClientAddr is a as a Key holds it: without zone, and IPv4 where an IPv6 socket showed an IPv4-mapped address. The zero
// Addr, a client on a Unix socket, stays as it is.
func ClientAddr(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// only is k with the parts that are not in p left zero.
func (k *Key) only(p Parts) (kept Key) {
	if p&PartDatabase != 0 {
		kept.Database = k.Database
	}
	if p&PartUser != 0 {
		kept.User = k.User
	}
	if p&PartApplication != 0 {
		kept.Application = k.Application
	}
	if p&PartAddr != 0 {
		kept.Addr = k.Addr
	}
	if p&PartClass != 0 {
		kept.Class = k.Class
	}
	return kept
}

// Identity says which route of a pool a request belongs to; the pool is the other half of the route's identity.
// It is comparable. A Directory compares RuleID and Key only: Rule is an index, which the next configuration may change.
type Identity struct {
	// Rule is the index in Options.Rules of the rule that matched, -1 if none did.
	Rule int
	// RuleID outlives a reload: the rule's name; or, for a rule without a name, a text made from what it matches, which
	// begins with a NUL byte and stays the same when rules are reordered; "" when no rule matched.
	RuleID string
	// Key holds the parts that count, the others are zero.
	Key Key
}

// unnamed begins each RuleID that is not a rule's name: no name has a NUL byte.
const unnamed = "\x00"

// overflowID is the RuleID of a pool's overflow route. The text for a rule never begins so.
const overflowID = unnamed + unnamed

// OverflowIdentity is how the overflow route of a pool is known, by the pool's own database and user.
func OverflowIdentity(names Tenant) Identity {
	return Identity{Rule: -1, RuleID: overflowID, Key: Key{Database: names.Database, User: names.User}}
}

// Overflow tells whether this is a pool's overflow route, as Directory.Each shows it.
func (id Identity) Overflow() bool { return id.RuleID == overflowID }

// whole tells whether this is all that a rule with a name matches in a pool: clients choose no part of it.
func (id *Identity) whole() bool { return id.RuleName() != "" && id.Key == Key{} }

// RuleName is the name of the rule that made this route, "" if a rule without a name or no rule did.
func (id Identity) RuleName() string {
	if strings.HasPrefix(id.RuleID, unnamed) {
		return ""
	}
	return id.RuleID
}

// Label names the route in metrics and views:
//
//	rule                                    a rule with a name
//	rule/user=u/query_class=read            the same, kept apart by split_by; values that are empty or default are left out
//	database/user/application_name/class    every other route: always these four, empty where they do not count
//	database/user/overflow                  the overflow route of a pool
//
// Client addresses are no label, so routes may share one; apart from that no two identities of these four kinds have the
// same. Slashes, percent signs, bytes that are no UTF-8 and what cannot be printed are written as %XX, so that no name
// makes one route look like another.
func (id Identity) Label() string {
	k := &id.Key
	b := make([]byte, 0, 64)
	if name := id.RuleName(); name != "" {
		b = appendEscaped(b, name)
		b = appendSplit(b, partNames[0], k.Database)
		b = appendSplit(b, partNames[1], k.User)
		b = appendSplit(b, partNames[2], k.Application)
		if k.Class != ClassDefault {
			b = appendSplit(b, partNames[4], k.Class.String())
		}
		return string(b)
	}
	b = append(appendEscaped(b, k.Database), '/')
	b = append(appendEscaped(b, k.User), '/')
	if id.Overflow() {
		return string(append(b, "overflow"...))
	}
	b = append(appendEscaped(b, k.Application), '/')
	return string(append(b, k.Class.String()...))
}

func appendSplit(b []byte, part, value string) []byte {
	if value == "" {
		return b
	}
	b = append(append(append(b, '/'), part...), '=')
	return appendEscaped(b, value)
}

func appendEscaped(b []byte, s string) []byte {
	const hex = "0123456789ABCDEF"
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == '/' || r == '%' || r == utf8.RuneError && n == 1 || !strconv.IsPrint(r) {
			for i := range n {
				b = append(b, '%', hex[s[i]>>4], hex[s[i]&15])
			}
		} else {
			b = append(b, s[:n]...)
		}
		s = s[n:]
	}
	return b
}
