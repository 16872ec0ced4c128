package auth

import (
	"net/netip"
	"testing"
)

// hbaStub decides the same for all, or has no line.
type hbaStub struct {
	d     Decision
	empty bool
}

func (h hbaStub) Match(*Peer) (Decision, bool) { return h.d, !h.empty }

// mapStub is one line of a map called staff.
type mapStub struct{ system, user string }

func (m mapStub) Allows(name, system, user string) bool {
	return name == "staff" && system == m.system && user == m.user
}

func TestDecide(t *testing.T) {
	f := func(p Policy, peer *Peer, want Method, refusal string) {
		t.Helper()
		d, refused := NewRules(p).Decide(peer)
		switch {
		case refused == nil && refusal == "":
			if d.Method != want {
				t.Errorf("method %v, want %v", d.Method, want)
			}
		case refused == nil || refused.Fields.Severity+" "+refused.Fields.Code+" "+refused.Fields.Message != refusal:
			t.Errorf("got %+v\nwant %s", refused, refusal)
		}
	}
	local := &Peer{User: "alice", Database: "db"}
	mapped := &Peer{User: "alice", Database: "db", Addr: netip.MustParseAddr("::ffff:192.0.2.1")}
	withCert := testPeer(true)
	withCert.Verified = true

	for m := range methodNames {
		if m := Method(m); m != Reject && m != Cert {
			f(Policy{Method: m}, testPeer(false), m, "")
			f(Policy{HBA: hbaStub{d: Decision{Method: m}}}, testPeer(false), m, "")
			f(Policy{HBA: hbaStub{d: Decision{Method: m}}, Method: Trust}, testPeer(false), m, "")
		}
	}
	f(Policy{}, testPeer(false), 0, `FATAL 28000 pg-kinetic rejects connection for host "192.0.2.1", user "alice", database "db", no encryption`)
	f(Policy{HBA: hbaStub{}}, testPeer(true), 0, `FATAL 28000 pg_hba.conf rejects connection for host "192.0.2.1", user "alice", database "db", SSL encryption`)
	f(Policy{HBA: hbaStub{}}, local, 0, `FATAL 28000 pg_hba.conf rejects connection for host "[local]", user "alice", database "db", no encryption`)
	f(Policy{HBA: hbaStub{}}, mapped, 0, `FATAL 28000 pg_hba.conf rejects connection for host "192.0.2.1", user "alice", database "db", no encryption`)
	f(Policy{HBA: hbaStub{empty: true}, Method: Trust}, testPeer(false), 0,
		`FATAL 28000 no pg_hba.conf entry for host "192.0.2.1", user "alice", database "db", no encryption`)
	const needed = "FATAL 28000 connection requires a valid client certificate"
	f(Policy{Method: Cert}, local, 0, needed)
	f(Policy{Method: Cert}, testPeer(true), 0, needed)
	f(Policy{Method: Cert}, withCert, Cert, "")
	f(Policy{HBA: hbaStub{d: Decision{Method: SCRAM, ClientCert: VerifyCA}}}, testPeer(true), 0, needed)
	f(Policy{HBA: hbaStub{d: Decision{Method: SCRAM, ClientCert: VerifyFull}}}, testPeer(true), 0, needed)
	f(Policy{HBA: hbaStub{d: Decision{Method: SCRAM, ClientCert: VerifyCA}}}, withCert, SCRAM, "")
}

// TestCertificateNames: whose certificate lets in as alice, by itself or after
// another proof; the texts are PostgreSQL's for each method.
func TestCertificateNames(t *testing.T) {
	f := func(d Decision, cn, dn, want string) {
		t.Helper()
		peer := testPeer(true)
		peer.Verified, peer.CommonName, peer.DistinguishedName = true, cn, dn
		rules := NewRules(Policy{HBA: hbaStub{d: d}, Maps: mapStub{"robot", "alice"}})
		d, refused := rules.Decide(peer)
		if refused != nil {
			t.Fatal(refused)
		}
		x := NewExchange(d, peer, Plain("pencil"), NewKeys())
		o := run(t, x, &client{user: "alice", password: "pencil"})
		if want == "" && o.refused != nil || want != "" && (o.refused == nil || o.refused.Fields.Message != want) {
			t.Errorf("%+v with CN %q, DN %q: %v, want %q", d, cn, dn, o, want)
		}
		if o.refused != nil && (o.refused.Cause == "" || x.Keys() != nil || x.Password().Kind() != NoSecret) {
			t.Errorf("cause %q, or something was learnt", o.refused.Cause)
		}
	}
	const (
		cert     = `certificate authentication failed for user "alice"`
		password = `password authentication failed for user "alice"`
		trust    = `"trust" authentication failed for user "alice"`
		dn       = "CN=alice,O=Example"
	)
	f(Decision{Method: Cert}, "alice", dn, "")
	f(Decision{Method: Cert}, "bob", dn, cert)
	f(Decision{Method: Cert}, "Alice", dn, cert)
	f(Decision{Method: Cert}, "", "", cert)
	f(Decision{Method: Cert, ByDN: true}, "alice", dn, cert)
	f(Decision{Method: Cert, ByDN: true}, "bob", "alice", "")
	f(Decision{Method: Cert, Map: "staff"}, "robot", dn, "")
	f(Decision{Method: Cert, Map: "staff"}, "alice", dn, cert)
	f(Decision{Method: Cert, Map: "others"}, "robot", dn, cert)
	f(Decision{Method: Cert, Map: "staff"}, "", dn, cert)
	f(Decision{Method: SCRAM, ClientCert: VerifyFull}, "alice", dn, "")
	f(Decision{Method: SCRAM, ClientCert: VerifyFull}, "bob", dn, password)
	f(Decision{Method: SCRAM, ClientCert: VerifyCA}, "bob", dn, "")
	f(Decision{Method: MD5, ClientCert: VerifyFull}, "bob", dn, password)
	f(Decision{Method: Trust, ClientCert: VerifyFull}, "alice", dn, "")
	f(Decision{Method: Trust, ClientCert: VerifyFull}, "bob", dn, trust)
	f(Decision{Method: Trust, ClientCert: VerifyCA}, "bob", dn, "")

	nameless := testPeer(true)
	nameless.Verified = true
	d, _ := NewRules(Policy{HBA: hbaStub{d: Decision{Method: Cert, Map: "staff"}}, Maps: mapStub{"", "alice"}}).Decide(nameless)
	if o := run(t, NewExchange(d, nameless, Secret{}, NewKeys()), &client{}); o.refused == nil {
		t.Error("a certificate without a name lets in")
	}
	withoutMaps := testPeer(true)
	withoutMaps.Verified, withoutMaps.CommonName = true, "alice"
	x := NewExchange(Decision{Method: Cert, ClientCert: VerifyFull, Map: "staff"}, withoutMaps, Secret{}, NewKeys())
	if o := run(t, x, &client{}); o.refused == nil {
		t.Error("a map that is not there lets in")
	}
}

// TestRejectedIsNeverAsked: an Exchange for a Decision that was refused admits nobody.
func TestRejectedIsNeverAsked(t *testing.T) {
	o := run(t, NewExchange(Decision{}, testPeer(false), Plain("pencil"), NewKeys()), &client{})
	if want := `FATAL 28000 authentication failed for user "alice": host rejected`; o.String() != want {
		t.Errorf("%v, want %s", o, want)
	}
}

func TestMethodNames(t *testing.T) {
	for i := range methodNames {
		m := Method(i)
		if got, ok := ParseMethod(m.String()); !ok || got != m {
			t.Errorf("%v: %v, %v", m, got, ok)
		}
		if want := m == Password || m == MD5 || m == SCRAM; m.NeedsSecret() != want {
			t.Errorf("%v needs a secret: %v", m, !want)
		}
	}
	if m, ok := ParseMethod("peer"); ok || m != Reject {
		t.Errorf("an unknown method is %v", m)
	}
}
