package hba

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// addresses reads where a rule's clients come from: a keyword, a network, or an
// address with its mask in a field of its own.
func (p *lineParser) addresses(rule *rule) {
	w, ok := p.one("the address")
	switch {
	case !ok:
	case w.is("all"):
		rule.anywhere = true
	case w.is("samehost"), w.is("samenet"):
		rule.networks = p.sameNetworks(w)
	default:
		if network, ok := p.network(w); ok {
			rule.networks = []netip.Prefix{network}
		}
	}
}

// network reads address/bits, or an address and the mask in the next field.
func (p *lineParser) network(w word) (network netip.Prefix, ok bool) {
	text, bits, cidr := strings.Cut(w.text, "/")
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		p.badAddress(w, text)
		// What follows cannot be told: the mask of the address, or the method.
		p.stopped = true
		return netip.Prefix{}, false
	}
	var size int
	if cidr {
		if size, err = strconv.Atoi(bits); err != nil || strconv.Itoa(size) != bits || size < 0 || size > addr.BitLen() {
			p.fail(w.place, "invalid number of bits in %q: it is 0 to %d", w.text, addr.BitLen())
			return netip.Prefix{}, false
		}
	} else if size, ok = p.mask(addr); !ok {
		return netip.Prefix{}, false
	}
	if addr.Is4In6() {
		addr, size = addr.Unmap(), max(0, size-96)
	}
	return netip.PrefixFrom(addr, size).Masked(), true
}

// mask reads the mask of an address: how many bits of it count.
func (p *lineParser) mask(addr netip.Addr) (size int, ok bool) {
	w, ok := p.one("the mask of the address")
	if !ok {
		return 0, false
	}
	mask, err := netip.ParseAddr(w.text)
	if err != nil || mask.Is4() != addr.Is4() {
		p.fail(w.place, "%q is not a mask for the address %s; write %s/%d for it alone, or the mask, or the number of bits behind a slash",
			w.text, addr, addr, addr.BitLen())
		return 0, false
	}
	size, length := net.IPMask(mask.AsSlice()).Size()
	if length == 0 {
		p.fail(w.place, "the mask %s is not a number of one bits followed by zero bits", w.text)
		return 0, false
	}
	return size, true
}

// badAddress tells what is wrong with what should be an address.
func (p *lineParser) badAddress(w word, text string) {
	switch {
	case text == "" || strings.ContainsAny(text, ":%") || strings.Trim(text, "0123456789.") == "":
		p.fail(w.place, "invalid address %q; write an IPv4 or IPv6 address without a zone, and no leading zeros", text)
	default:
		p.fail(w.place, "host names are not supported (%q), since resolving them would delay every login; write the addresses", w.text)
	}
}

// sameNetworks are the addresses of this machine (samehost) or its networks
// (samenet), as they are now.
func (p *lineParser) sameNetworks(w word) []netip.Prefix {
	interfaces, err := p.interfaces()
	if err != nil {
		p.fail(w.place, "cannot list the addresses of this machine for %s: %v", w.text, err)
		return nil
	}
	var networks []netip.Prefix
	for _, entry := range interfaces {
		n, ok := entry.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if !ok {
			continue
		}
		addr = addr.Unmap()
		bits := addr.BitLen()
		if w.is("samenet") {
			if ones, length := n.Mask.Size(); length == bits {
				bits = ones
			}
		}
		networks = append(networks, netip.PrefixFrom(addr, bits).Masked())
	}
	return networks
}
