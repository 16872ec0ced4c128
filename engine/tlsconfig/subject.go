package tlsconfig

import (
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Subject is whom a client's certificate names.
type Subject struct {
	CommonName string // the first one; empty without
	// DistinguishedName is the whole subject as PostgreSQL matches it under clientname=DN: as of RFC 2253, the last part
	// first, bytes beyond ASCII as \XX. It is what "openssl x509 -noout -subject -nameopt RFC2253" prints.
	DistinguishedName string
}

// The subject as it is encoded: crypto/x509 keeps neither its order nor what it does not know.
type (
	encodedName []relativeNameSET
	// The ending tells encoding/asn1 that it is a SET.
	relativeNameSET []nameAttribute
	nameAttribute   struct {
		Type  asn1.ObjectIdentifier
		Value asn1.RawValue
	}
)

var (
	errSubject    = errors.New("the certificate's subject is not a name")
	errSubjectNUL = errors.New("the certificate's common name has a NUL byte")
)

// SubjectOf returns the subject of a certificate. An error is a certificate that nobody may be known by, as in PostgreSQL:
// its common name has a NUL byte.
func SubjectOf(cert *x509.Certificate) (Subject, error) {
	var name encodedName
	if rest, err := asn1.Unmarshal(cert.RawSubject, &name); err != nil || len(rest) > 0 {
		return Subject{}, errSubject
	}
	var s Subject
	var dn strings.Builder
	for i := len(name) - 1; i >= 0; i-- {
		set := name[i]
		for j := len(set) - 1; j >= 0; j-- {
			switch {
			case dn.Len() == 0:
			case j == len(set)-1:
				dn.WriteByte(',')
			default:
				dn.WriteByte('+')
			}
			set[j].print(&dn)
			if text, ok := set[j].text(); ok && set[j].Type.String() == commonName {
				s.CommonName = text // going backwards, the first one is kept
			}
		}
	}
	if strings.ContainsRune(s.CommonName, 0) {
		return Subject{}, errSubjectNUL
	}
	s.DistinguishedName = dn.String()
	return s, nil
}

const commonName = "2.5.4.3"

// shortNames are those that OpenSSL prints.
var shortNames = map[string]string{
	commonName: "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
	"2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.13": "description",
	"2.5.4.15": "businessCategory", "2.5.4.17": "postalCode", "2.5.4.41": "name", "2.5.4.42": "GN", "2.5.4.43": "initials",
	"2.5.4.44": "generationQualifier", "2.5.4.46": "dnQualifier", "2.5.4.65": "pseudonym", "2.5.4.97": "organizationIdentifier",
	"0.9.2342.19200300.100.1.1": "UID", "0.9.2342.19200300.100.1.25": "DC", "1.2.840.113549.1.9.1": "emailAddress",
	"1.2.840.113549.1.9.2": "unstructuredName",
}

// print writes "name=value". What is no text, or has a name that nobody knows, stands as the hexadecimal of its encoding.
func (a *nameAttribute) print(out *strings.Builder) {
	short, known := shortNames[a.Type.String()]
	text, isText := a.text()
	switch {
	case known && isText:
		out.WriteString(short + "=")
		escape(out, text)
	case known:
		fmt.Fprintf(out, "%s=#%X", short, a.Value.FullBytes)
	default:
		fmt.Fprintf(out, "%s=#%X", a.Type, a.Value.FullBytes)
	}
}

// The encodings of text, of which encoding/asn1 has a name for some.
const tagUniversalString = 28

// text returns the value as UTF-8; false where it is no text, or a broken one.
func (a *nameAttribute) text() (string, bool) {
	b := a.Value.Bytes
	if a.Value.Class != asn1.ClassUniversal || a.Value.IsCompound {
		return "", false
	}
	var runes []rune
	switch a.Value.Tag {
	case asn1.TagUTF8String:
		return string(b), utf8.Valid(b)
	case asn1.TagPrintableString, asn1.TagIA5String, asn1.TagNumericString, asn1.TagT61String:
		for _, c := range b { // Latin-1, as OpenSSL reads it
			runes = append(runes, rune(c))
		}
	case asn1.TagBMPString:
		if len(b)%2 != 0 {
			return "", false
		}
		var units []uint16
		for ; len(b) > 0; b = b[2:] {
			units = append(units, uint16(b[0])<<8|uint16(b[1]))
		}
		runes = utf16.Decode(units)
	case tagUniversalString:
		if len(b)%4 != 0 {
			return "", false
		}
		for ; len(b) > 0; b = b[4:] {
			runes = append(runes, rune(b[0])<<24|rune(b[1])<<16|rune(b[2])<<8|rune(b[3]))
		}
	default:
		return "", false
	}
	return string(runes), true
}

// escape writes a value by the rules of RFC 2253, section 2.4.
func escape(out *strings.Builder, s string) {
	for i := range len(s) {
		c := s[i]
		switch {
		case strings.IndexByte(`,+"\<>;`, c) >= 0, i == 0 && (c == '#' || c == ' '), i == len(s)-1 && c == ' ':
			out.WriteByte('\\')
			out.WriteByte(c)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(out, `\%02X`, c)
		default:
			out.WriteByte(c)
		}
	}
}
