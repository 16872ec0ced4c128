package engine

// Who may log in, how that is proved, and what is encrypted: what is made of the
// sections auth and tls and of the files that they name.
//
// security is one generation: immutable, a part of the settings; a login or
// handshake that has begun keeps the generation it began with.

import (
	"crypto/x509"
	"net/netip"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/tlsconfig"
)

type security struct {
	rules        *auth.Rules
	tls          *tlsconfig.Set
	proxy        configs.ProxyProtocol
	proxySources []netip.Prefix
	proxyUnix    bool
}

// newSecurity reads the files that cfg names. The error is a ProblemsError.
func newSecurity(cfg *configs.Config, origins *configs.Origins) (*security, error) {
	f, problems := readSecurityFiles(cfg, origins)
	if len(problems) > 0 {
		return nil, ProblemsError(problems)
	}
	policy := auth.Policy{Users: f.users}
	policy.Method, _ = auth.ParseMethod(string(cfg.Auth.Method)) // configs knows the same names, and hba
	if f.rules != nil {
		policy.HBA = f.rules
	}
	if f.maps != nil {
		policy.Maps = f.maps
	}
	x := &security{rules: auth.NewRules(policy), tls: f.tls, proxy: cfg.Server.ProxyProtocol}
	x.proxySources, x.proxyUnix = cfg.Server.ProxySources()
	return x, nil
}

// believes tells whether a PROXY header of a peer is taken, and whether a peer that
// sends none is let in. The zero address is that of a Unix socket.
func (x *security) believes(peer netip.Addr) (header, without bool) {
	if x.proxy == configs.ProxyOff || x.proxy == "" {
		return false, true
	}
	trusted := !peer.IsValid() && x.proxyUnix
	for _, p := range x.proxySources {
		trusted = trusted || p.Contains(peer)
	}
	if x.proxy == configs.ProxyOptional {
		return trusted, true
	}
	return trusted, !trusted && !peer.IsValid()
}

// endPoint is what a login to PostgreSQL is bound to, nil for nothing.
func endPoint(peers []*x509.Certificate) []byte {
	if len(peers) == 0 {
		return nil
	}
	return tlsconfig.EndPoint(peers[0])
}
