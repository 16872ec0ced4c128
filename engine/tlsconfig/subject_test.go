package tlsconfig

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
	"unicode"
)

func attribute(oid asn1.ObjectIdentifier, value any) pkix.AttributeTypeAndValue {
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}
}

func encoded(tag int, bytes string) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassUniversal, Tag: tag, Bytes: []byte(bytes)}
}

var (
	oidCN    = asn1.ObjectIdentifier{2, 5, 4, 3}
	oidC     = asn1.ObjectIdentifier{2, 5, 4, 6}
	oidO     = asn1.ObjectIdentifier{2, 5, 4, 10}
	oidOU    = asn1.ObjectIdentifier{2, 5, 4, 11}
	oidDC    = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	oidUID   = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}
	oidEmail = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidOwn   = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 99999, 1}
)

// The distinguished names are what openssl prints for the same subjects: openssl x509 -noout -subject -nameopt RFC2253.
var subjects = []struct {
	name   pkix.RDNSequence
	cn, dn string
}{
	{pkix.RDNSequence{}, "", ""},
	{pkix.RDNSequence{{attribute(oidC, "DE")}, {attribute(oidO, "Acme, Inc.")}, {attribute(oidCN, "app")}}, "app", `CN=app,O=Acme\, Inc.,C=DE`},
	{pkix.RDNSequence{{attribute(oidCN, "first")}, {attribute(oidCN, "second")}}, "first", "CN=second,CN=first"},
	{pkix.RDNSequence{{attribute(oidO, "x")}, {attribute(oidCN, "a"), attribute(oidOU, "b")}}, "a", "OU=b+CN=a,O=x"},
	{pkix.RDNSequence{{attribute(oidDC, encoded(asn1.TagIA5String, "org"))}, {attribute(oidDC, encoded(asn1.TagIA5String, "example"))}, {attribute(oidUID, "u1")}}, "", "UID=u1,DC=example,DC=org"},
	{pkix.RDNSequence{{attribute(oidEmail, encoded(asn1.TagIA5String, "a@b.c"))}, {attribute(oidCN, ` #"+,;<>\ `)}}, ` #"+,;<>\ `, `CN=\ #\"\+\,\;\<\>\\\ ,emailAddress=a@b.c`},
	{pkix.RDNSequence{{attribute(oidCN, "#x")}}, "#x", `CN=\#x`},
	{pkix.RDNSequence{{attribute(oidCN, "jürgen€")}}, "jürgen€", `CN=j\C3\BCrgen\E2\82\AC`},
	{pkix.RDNSequence{{attribute(oidCN, encoded(asn1.TagT61String, "j\xfcrgen"))}}, "jürgen", `CN=j\C3\BCrgen`},
	{pkix.RDNSequence{{attribute(oidCN, encoded(asn1.TagBMPString, "\x00j\x20\xac"))}}, "j€", `CN=j\E2\82\AC`},
	{pkix.RDNSequence{{attribute(oidCN, encoded(tagUniversalString, "\x00\x00\x00j\x00\x00\x20\xac"))}}, "j€", `CN=j\E2\82\AC`},
	{pkix.RDNSequence{{attribute(oidCN, "a\nb\x7f")}}, "a\nb\x7f", `CN=a\0Ab\7F`},
	{pkix.RDNSequence{{attribute(oidOwn, "x")}, {attribute(oidCN, "app")}}, "app", "CN=app,1.3.6.1.4.1.99999.1=#130178"},
	{pkix.RDNSequence{{attribute(oidO, encoded(asn1.TagBitString, "\x00x"))}, {attribute(oidCN, "app")}}, "app", "CN=app,O=#03020078"},
}

func TestSubject(t *testing.T) {
	for _, s := range subjects {
		der, err := asn1.Marshal(s.name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := SubjectOf(&x509.Certificate{RawSubject: der})
		if err != nil || got.CommonName != s.cn || got.DistinguishedName != s.dn {
			t.Errorf("%s: %+v, %v", s.dn, got, err)
		}
	}
	f := func(rawSubject string, want error) {
		t.Helper()
		if _, err := SubjectOf(&x509.Certificate{RawSubject: []byte(rawSubject)}); err != want {
			t.Errorf("%q: %v", rawSubject, err)
		}
	}
	f("", errSubject)
	f("\x30\x05", errSubject)
	f("\x30\x00\x00", errSubject)
	der, err := asn1.Marshal(pkix.RDNSequence{{attribute(oidCN, "root\x00.evil")}})
	if err != nil {
		t.Fatal(err)
	}
	f(string(der), errSubjectNUL)
}

// Whatever a subject holds, its distinguished name is printable ASCII, which a log line or a rule can hold.
func FuzzSubject(f *testing.F) {
	for _, s := range subjects {
		der, err := asn1.Marshal(s.name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		s, err := SubjectOf(&x509.Certificate{RawSubject: der})
		if err != nil {
			return
		}
		if strings.ContainsFunc(s.DistinguishedName, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) }) || strings.ContainsRune(s.CommonName, 0) {
			t.Errorf("%q", s)
		}
	})
}
