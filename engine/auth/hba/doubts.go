package hba

import (
	"fmt"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// Circumstances are what the rest of the settings says about which lines can do
// what they say.
type Circumstances struct {
	Socket   bool  // there is a Unix socket
	TLS      bool  // clients may use TLS
	OnlyTLS  bool  // over TCP they must
	ClientCA bool  // their certificates can be verified
	Secrets  bool  // users' secrets are in a file, or can be looked up
	Maps     *Maps // nil: there are none
}

// Doubts tells lines that are valid and are for no client, or let none in. Each
// has the line's place.
func (r *Rules) Doubts(c Circumstances) (doubts []configs.Problem) {
	for i := range r.rules {
		rule := &r.rules[i]
		doubt := rule.idle(&c)
		if doubt == "" {
			doubt = rule.line.shut(&c)
		}
		if doubt != "" {
			doubts = append(doubts, configs.Problem{Place: rule.line.Place, Message: doubt})
		}
	}
	return doubts
}

// idle tells why no client comes to the rule, "" when some may.
func (r *rule) idle(c *Circumstances) string {
	because := ""
	switch {
	case r.connection == local && !c.Socket:
		because = "server.unix_socket_dir is not set"
	case r.connection == hostSSL && !c.TLS:
		because = "tls.client_mode is disable"
	case r.connection == hostNoSSL && c.OnlyTLS:
		because = "tls.client_mode lets nobody in without TLS"
	case r.connection == hostGSS:
		because = "encryption by GSSAPI is not offered"
	default:
		return ""
	}
	return "the " + connectionNames[r.connection] + " line is for no client: " + because
}

// shut tells why the line lets nobody in though it says otherwise, else "".
func (l *Line) shut(c *Circumstances) string {
	switch {
	case l.ClientCert != auth.NoClientCert && !c.ClientCA:
		return "the line asks for a certificate that no client can show: tls.client_ca_file is not set"
	case l.Map != "" && c.Maps == nil:
		return fmt.Sprintf("the line lets nobody in: map %q is in no file, since auth.ident_file is not set", l.Map)
	case l.Map != "" && !c.Maps.has(l.Map):
		return fmt.Sprintf("the line lets nobody in: auth.ident_file has no line for map %q", l.Map)
	case l.Method.NeedsSecret() && !c.Secrets:
		return fmt.Sprintf("the line lets nobody in: method %s needs auth.users_file or an auth_query", l.Method)
	}
	return ""
}
