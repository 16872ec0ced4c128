package auth

import "pgkinetic/protocol"

// ClientCert is what is asked of a client's certificate besides its Method; the
// names are those of the option clientcert in pg_hba.conf.
type ClientCert uint8

const (
	// NoClientCert: a certificate is not asked for.
	NoClientCert ClientCert = iota
	// VerifyCA: one that our CAs have signed.
	VerifyCA
	// VerifyFull: one that names the user as well.
	VerifyFull
)

// HBA is a file of rules in pg_hba.conf's syntax: the first line that fits a client
// decides. Safe for all goroutines.
type HBA interface {
	// Match returns what the line says; ok is false when no line fits.
	Match(p *Peer) (d Decision, ok bool)
}

// Maps are the user name maps of a file in pg_ident.conf's syntax. Safe for all
// goroutines.
type Maps interface {
	// Allows tells whether the map lets the bearer of the name in a certificate log
	// in as user.
	Allows(mapName, certificateName, user string) bool
}

// Decision is which proof a client owes.
type Decision struct {
	Method     Method
	ClientCert ClientCert
	// ByDN: the certificate names its bearer by the distinguished name, not by the
	// common name.
	ByDN bool
	// Map is the user name map that a certificate's name goes through; "" for none,
	// where it must be the user's.
	Map string

	maps   Maps
	legacy bool // most users are asked for an md5 proof under the method md5
}

// Policy is what Rules are made of.
type Policy struct {
	// HBA decides where it is not nil, else Method does for everybody.
	HBA    HBA
	Method Method
	// Maps may be nil: then no map lets anybody in.
	Maps  Maps
	Users *Users
}

// Rules are one immutable generation of who may log in and how. Safe for all
// goroutines; a login that has begun keeps the generation that it began with.
type Rules struct{ policy Policy }

// NewRules returns the rules of p.
func NewRules(p Policy) *Rules { return &Rules{p} }

// Users are the users of the generation's file, nil without one.
func (r *Rules) Users() *Users { return r.policy.Users }

// Decide returns which proof p owes, or why it is refused before any.
func (r *Rules) Decide(p *Peer) (Decision, *Refusal) {
	d, by := Decision{Method: r.policy.Method}, "pg-kinetic"
	if r.policy.HBA != nil {
		by = "pg_hba.conf"
		var ok bool
		if d, ok = r.policy.HBA.Match(p); !ok {
			return d, refuse(protocol.CodeInvalidAuthorization, "no pg_hba.conf entry for "+p.describe(), "")
		}
	}
	d.maps, d.legacy = r.policy.Maps, r.policy.Users.mostlyLegacy()
	switch d.Method {
	case Reject:
		return d, refuse(protocol.CodeInvalidAuthorization, by+" rejects connection for "+p.describe(), "")
	case Cert:
		d.ClientCert = VerifyFull
	case Trust, Password, MD5, SCRAM:
	}
	if d.ClientCert != NoClientCert && !p.Verified {
		return d, refuse(protocol.CodeInvalidAuthorization, "connection requires a valid client certificate", "")
	}
	return d, nil
}

// misnamed tells why p's certificate does not name its user; "" where it does, or
// need not.
func (d *Decision) misnamed(p *Peer) (cause string) {
	if d.ClientCert != VerifyFull {
		return ""
	}
	name := p.CommonName
	if d.ByDN {
		name = p.DistinguishedName
	}
	switch {
	case name == "":
		return "the client's certificate contains no user name"
	case d.Map == "":
		if name != p.User {
			return "the client's certificate names another user"
		}
	case d.maps == nil || !d.maps.Allows(d.Map, name, p.User):
		return "no entry of the user name map " + d.Map + " lets the certificate's name log in as this user"
	}
	return ""
}
