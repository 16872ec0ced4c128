package proxyproto

import (
	"bytes"
	"net/netip"
	"strconv"
	"strings"

	"pgkinetic/protocol"
)

// maxLine is the longest header of version 1, its CR LF included.
const maxLine = 107

// decodeLine decodes a header of version 1: one line of text.
func decodeLine(p []byte) (Header, int, error) {
	at, err := begins(p, "PROXY ")
	if err != nil {
		return Header{}, 0, err
	}
	switch kind := p[at:]; {
	case starts(kind, "TCP4 "), starts(kind, "TCP6 "):
		return decodeAddresses(p)
	case starts(kind, "UNKNOWN "), starts(kind, "UNKNOWN\r\n"):
		end, err := lineEnd(p)
		return Header{}, end, err // what the line says beyond that is to be ignored
	}
	return Header{}, 0, ErrLine
}

// starts tells whether p is the start of text, or begins with it.
func starts(p []byte, text string) bool {
	n := min(len(p), len(text))
	return string(p[:n]) == text[:n]
}

// lineEnd returns where the line ends, behind its CR LF.
func lineEnd(p []byte) (int, error) {
	p = p[:min(len(p), maxLine)]
	if i := bytes.Index(p, []byte("\r\n")); i >= 0 {
		return i + 2, nil
	}
	if len(p) == maxLine {
		return 0, ErrLine
	}
	return 0, protocol.ErrShort
}

// decodeAddresses decodes a line from "TCP4" or "TCP6" on: two addresses of
// that family and two ports, with exactly one space between them.
func decodeAddresses(p []byte) (Header, int, error) {
	const fields = len("PROXY TCPn ")
	end, err := lineEnd(p)
	line := p[:min(len(p), maxLine)]
	if err == nil {
		line = p[:end-2]
	} else {
		line = bytes.TrimSuffix(line, []byte("\r"))
	}
	text := string(line[min(fields, len(line)):])
	if strings.ContainsFunc(text, notInAddresses) {
		return Header{}, 0, ErrLine
	}
	if err != nil {
		return Header{}, 0, err
	}
	parts := strings.Split(text, " ")
	if len(parts) != 4 {
		return Header{}, 0, ErrLine
	}
	v4 := p[fields-2] == '4'
	source, ok1 := parseEnd(parts[0], parts[2], v4)
	destination, ok2 := parseEnd(parts[1], parts[3], v4)
	if !ok1 || !ok2 {
		return Header{}, 0, ErrLine
	}
	return Header{Source: source, Destination: destination}, end, nil
}

// notInAddresses tells that a line of addresses and ports cannot hold c.
func notInAddresses(c rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF:. ", c) }

// parseEnd reads an address of the family and a port, both without the leading
// zeros that somebody might take for octal.
func parseEnd(address, port string, v4 bool) (netip.AddrPort, bool) {
	addr, err := netip.ParseAddr(address)
	if err != nil || addr.Is4() != v4 {
		return netip.AddrPort{}, false
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || len(port) > 1 && port[0] == '0' {
		return netip.AddrPort{}, false
	}
	return netip.AddrPortFrom(addr.Unmap(), uint16(number)), true
}
