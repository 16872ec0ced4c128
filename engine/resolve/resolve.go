// Package resolve looks up the addresses of a name as the standard library does (/etc/hosts, nsswitch.conf, resolv.conf
// and its search list), and tells as well what that keeps to itself: for how long the answer holds, and whether all of it
// could be had. It does so by reading the answers of name servers on their way.
package resolve

import (
	"context"
	"net"
	"time"
)

// Resolver looks names up. The zero value asks the name servers of the system.
type Resolver struct {
	// Server is the name server to ask, host:port, in place of those of the system.
	Server string
}

// Answer is what a name stands for.
type Answer struct {
	Addresses []string // IP addresses, the preferred one first; at least one
	// TTL is for how long the answer holds; Timed is false where nothing says so, because no name server was asked.
	TTL   time.Duration
	Timed bool
	// Partial: a name server has failed to answer a part of the question, such as that for IPv6 addresses.
	Partial bool
}

// Lookup blocks until there is an answer, or ctx ends.
func (r *Resolver) Lookup(ctx context.Context, name string) (*Answer, error) {
	heard := &record{}
	system := net.Resolver{Dial: func(ctx context.Context, network, server string) (net.Conn, error) {
		if r.Server != "" {
			server = r.Server
		}
		c, err := new(net.Dialer).DialContext(ctx, network, server)
		if err != nil {
			return nil, err
		}
		return heard.listen(c), nil
	}}
	system.PreferGo = r.Server != ""
	addresses, err := system.LookupHost(ctx, name)
	if err != nil {
		return nil, err
	}
	a := &Answer{Addresses: addresses}
	a.TTL, a.Timed, a.Partial = heard.result()
	return a, nil
}
