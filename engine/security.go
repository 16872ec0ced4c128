package engine

// Who may log in, how that is proved, and what is encrypted: what is made of the
// sections auth and tls and of the files that they name.
//
// security is one generation: immutable, a part of the settings; a login or
// handshake that has begun keeps the generation it began with.

import (
	"crypto/x509"
	"errors"
	"net/netip"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/auth/hba"
	"pgkinetic/engine/tlsconfig"
)

type security struct {
	rules        *auth.Rules
	tls          *tlsconfig.Set
	proxy        configs.ProxyProtocol
	proxySources []netip.Prefix
	proxyUnix    bool
}

// newSecurity reads the files that cfg names. The error names every one that is
// not good, with its remedy.
func newSecurity(cfg *configs.Config, origins *configs.Origins) (*security, error) {
	x := &security{proxy: cfg.Server.ProxyProtocol}
	x.proxySources, x.proxyUnix = cfg.Server.ProxySources()
	var problems []configs.Problem
	policy := auth.Policy{}
	a := &cfg.Auth
	place := func(key string) configs.Place {
		if origins == nil {
			return configs.Place{}
		}
		return origins.Of("auth." + key)
	}
	if a.UsersFile != "" {
		users, wrong := auth.LoadUsers(hba.System.Files, a.UsersFile, place("users_file"))
		policy.Users, problems = users, append(problems, wrong...)
	}
	if a.Method == configs.AuthHBA {
		rules, wrong := hba.LoadRules(hba.System, a.HBAFile, place("hba_file"))
		policy.HBA, problems = rules, append(problems, wrong...)
	} else {
		policy.Method, _ = auth.ParseMethod(string(a.Method)) // configs knows the same names
	}
	if a.IdentFile != "" {
		maps, wrong := hba.LoadMaps(hba.System, a.IdentFile, place("ident_file"))
		policy.Maps, problems = maps, append(problems, wrong...)
	}
	var err error
	x.tls, err = tlsconfig.New(cfg.TLS)
	for _, p := range problems {
		err = errors.Join(err, errors.New(p.String()))
	}
	if err != nil {
		return nil, err
	}
	x.rules = auth.NewRules(policy)
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
