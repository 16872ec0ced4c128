package tlsconfig

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// matchHost tells whether a certificate is for a host, by libpq's rules of sslmode=verify-full: one of its alternative names
// must be the host's; only if it has none of the host's kind (a name, or an address), its common name. A wildcard stands for
// the whole first label.
func matchHost(cert *x509.Certificate, host string) error {
	names := slices.Clone(cert.DNSNames)
	addr, err := netip.ParseAddr(host)
	isAddr := err == nil && addr.Zone() == ""
	fallBack := len(cert.DNSNames) == 0
	if isAddr {
		fallBack = len(cert.IPAddresses) == 0
	}
	if isAddr {
		for _, ip := range cert.IPAddresses {
			if other, ok := netip.AddrFromSlice(ip); ok && other == addr {
				return nil
			}
		}
	}
	if fallBack {
		subject, err := SubjectOf(cert)
		if err != nil {
			return err
		}
		if subject.CommonName != "" {
			names = append(names, subject.CommonName)
		}
	}
	for _, name := range names {
		if strings.ContainsRune(name, 0) {
			return errors.New("the server's certificate has a NUL byte in a name")
		}
		if matchName(lower(name), lower(host)) {
			return nil
		}
	}
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return mismatch(names, host)
}

// mismatch names what the certificate is for, as far as that is short.
func mismatch(names []string, host string) error {
	const most, longest = 3, 100
	more := ""
	if len(names) > most {
		names, more = names[:most], fmt.Sprintf(" and %d more", len(names)-most)
	}
	var shown []string
	for _, name := range names {
		shown = append(shown, fmt.Sprintf("%.*q", longest, name))
	}
	if len(shown) == 0 {
		shown = append(shown, "no host")
	}
	return fmt.Errorf("the server's certificate is for %s%s, not for %q, as databases[].hosts names it", strings.Join(shown, ", "), more, host)
}

// matchName compares a certificate's name with a host, both in lower case.
func matchName(name, host string) bool {
	if name == host {
		return true
	}
	if len(name) < len("*.x") || name[:2] != "*." {
		return false
	}
	_, parent, found := strings.Cut(host, ".")
	return found && len(host) >= len(name) && parent == name[2:]
}

// lower folds A to Z alone: Unicode's folding would take other letters for these.
func lower(s string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, s)
}
