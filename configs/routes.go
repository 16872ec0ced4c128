package configs

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// Route is one entry of routes: a rule for the requests that it matches. The first rule that matches a request holds for it.
// A rule with a name makes one route per pool of all requests that match, kept apart by SplitBy; one without gives its
// limits, weight and policy to each route of the ordinary key.
type Route struct {
	Name        string     `koanf:"name"` // empty: none; else distinct
	Match       RouteMatch `koanf:"match"`
	SplitBy     []string   `koanf:"split_by"` // of the words of admission.route_key; only with a name
	Weight      int        `koanf:"weight"`
	OnFull      OnFull     `koanf:"on_full"`
	RouteLimits `koanf:",squash"`
}

// RouteMatch says which requests a rule is for: those that fit every part, each of which any of its texts fits. An empty
// part fits everything. In Database, User and ApplicationName a '*' stands for any bytes, none included; nothing else is
// special.
type RouteMatch struct {
	Database        []string `koanf:"database"`
	User            []string `koanf:"user"`
	ApplicationName []string `koanf:"application_name"`
	ClientAddr      []string `koanf:"client_addr"` // see Addresses
	QueryClass      []string `koanf:"query_class"` // read, write, maintenance, copy, transaction, session, default
}

// OnFull says who goes when a request comes to a route whose queue is full.
type OnFull string

// The policies: the newcomer is refused; the oldest waiter of the route, or a random one, is refused in its place.
const (
	OnFullRejectNew  OnFull = "reject_new"
	OnFullDropOldest OnFull = "drop_oldest"
	OnFullDropRandom OnFull = "drop_random"
)

// routeParts are the words of Admission.RouteKey and Route.SplitBy, queryClasses those of RouteMatch.QueryClass.
var (
	routeParts   = []string{"database", "user", "application_name", "client_addr", "query_class"}
	queryClasses = []string{"read", "write", "maintenance", "copy", "transaction", "session", "default"}
)

// unixClients is the word of client_addr for clients on a Unix socket.
const unixClients = "unix"

// Addresses returns ClientAddr as prefixes of IPv4 and IPv6 addresses, none of them IPv4-mapped, a single address as a
// prefix of full length; and whether it names Unix sockets. Without either, every address matches.
func (m *RouteMatch) Addresses() (prefixes []netip.Prefix, unix bool) {
	return parseAddresses(m.ClientAddr)
}

// parseAddresses reads texts that checkClientAddr has accepted.
func parseAddresses(texts []string) (prefixes []netip.Prefix, unix bool) {
	for _, text := range texts {
		if text == unixClients {
			unix = true
		} else if p, err := parseClientAddr(text); err == nil {
			prefixes = append(prefixes, p)
		}
	}
	return prefixes, unix
}

func checkClientAddr(s string) error {
	if s == unixClients {
		return nil
	}
	_, err := parseClientAddr(s)
	return err
}

// parseClientAddr reads an address or a block of addresses. The error continues "path …".
func parseClientAddr(s string) (netip.Prefix, error) {
	var p netip.Prefix
	if addr, err := netip.ParseAddr(s); err == nil {
		if addr.Zone() != "" {
			return p, errors.New("must have no zone: clients are told apart by their address alone")
		}
		p = netip.PrefixFrom(addr, addr.BitLen())
	} else if p, err = netip.ParsePrefix(s); err != nil {
		return p, errors.New(`must be an address or a block of addresses, such as "192.168.1.7", "10.0.0.0/8" or "2001:db8::/32", or the word "unix"`)
	}
	if addr := p.Addr(); addr.Is4In6() {
		p = netip.PrefixFrom(addr.Unmap(), max(0, p.Bits()-96)).Masked()
		return p, fmt.Errorf("is an IPv4 address in IPv6 form, in which no client is seen: write %q", p)
	}
	if masked := p.Masked(); masked != p {
		return p, fmt.Errorf("has bits set behind its prefix: write %q", masked)
	}
	return p, nil
}

// otherRoutes is the label under which metrics and views sum the routes that have no label of their own.
const otherRoutes = "other"

func checkRouteName(s string) error {
	if s == otherRoutes {
		return errors.New("is reserved: metrics sum further routes under it; choose another")
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		return errors.New("must not have control characters: it is a label in metrics and views")
	}
	return nil
}
