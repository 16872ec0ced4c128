package proxyproto

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgkinetic/protocol"
)

// binaryHeader is a header of version 2.
func binaryHeader(command, family byte, block string) string {
	head := append([]byte(signature), command, family)
	return string(binary.BigEndian.AppendUint16(head, uint16(len(block)))) + block
}

func extension(typ byte, value string) string {
	return string(binary.BigEndian.AppendUint16([]byte{typ}, uint16(len(value)))) + value
}

// summed puts the checksum into a header that ends with four bytes of room for it.
func summed(header string) string {
	p := []byte(header)
	at := len(p) - 4
	binary.BigEndian.PutUint32(p[at:], checksum(p, at))
	return string(p)
}

const (
	inet  = "\x0a\x01\x02\x03\xc0\xa8\x00\x01\xd4\x31\x19\x20"
	inet6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01" +
		"\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02" + "\xd4\x31\x19\x20"
	mapped = "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\x0a\x01\x02\x03" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xc0\xa8\x00\x01" + "\xd4\x31\x19\x20"
)

var unix = strings.Repeat("/", 2*108)

// TestDecodeValid: each header as it is, with bytes behind it, and cut at every
// offset, where more bytes are asked for.
func TestDecodeValid(t *testing.T) {
	f := func(header, source, destination string) {
		t.Helper()
		var want Header
		if source != "" {
			want = Header{netip.MustParseAddrPort(source), netip.MustParseAddrPort(destination)}
		}
		for _, behind := range []string{"", "\x00\x00\x00\x08\x04\xd2\x16\x2f", "\r\n", "\n"} {
			h, n, err := Decode([]byte(header + behind))
			if h != want || n != len(header) || err != nil {
				t.Errorf("%q before %q: %+v, %d, %v", header, behind, h, n, err)
			}
		}
		for i := range len(header) {
			if h, n, err := Decode([]byte(header[:i])); err != protocol.ErrShort || n != 0 || h != (Header{}) {
				t.Errorf("%q: %+v, %d, %v", header[:i], h, n, err)
			}
		}
	}
	f("PROXY TCP4 10.1.2.3 192.168.0.1 54321 6432\r\n", "10.1.2.3:54321", "192.168.0.1:6432")
	f("PROXY TCP4 0.0.0.0 255.255.255.255 0 65535\r\n", "0.0.0.0:0", "255.255.255.255:65535")
	f("PROXY TCP6 2001:DB8::1 2001:db8:0:0:0:0:0:2 54321 6432\r\n", "[2001:db8::1]:54321", "[2001:db8::2]:6432")
	f("PROXY TCP6 ::ffff:10.1.2.3 ::ffff:c0a8:1 54321 6432\r\n", "10.1.2.3:54321", "192.168.0.1:6432")
	f("PROXY UNKNOWN\r\n", "", "")
	f("PROXY UNKNOWN any\x00thing\n\r or\xff nothing\r\n", "", "")
	f("PROXY UNKNOWN "+strings.Repeat("x", maxLine-len("PROXY UNKNOWN \r\n"))+"\r\n", "", "")

	f(binaryHeader(0x21, 0x11, inet), "10.1.2.3:54321", "192.168.0.1:6432")
	f(binaryHeader(0x21, 0x21, inet6), "[2001:db8::1]:54321", "[2001:db8::2]:6432")
	f(binaryHeader(0x21, 0x21, mapped), "10.1.2.3:54321", "192.168.0.1:6432")
	f(binaryHeader(0x21, 0x11, inet+extension(4, "")+extension(0xEE, "abc")), "10.1.2.3:54321", "192.168.0.1:6432")
	f(summed(binaryHeader(0x21, 0x11, inet+extension(2, "name")+extension(typeCRC32C, "room"))), "10.1.2.3:54321", "192.168.0.1:6432")
	f(binaryHeader(0x21, 0x11, inet+extension(4, strings.Repeat("x", maxBlock-len(inet)-3))), "10.1.2.3:54321", "192.168.0.1:6432")

	f(binaryHeader(0x20, 0x00, ""), "", "")
	f(binaryHeader(0x20, 0xFF, "whatever"), "", "") // of LOCAL nothing counts but the length
	f(binaryHeader(0x20, 0x11, inet), "", "")
	f(binaryHeader(0x21, 0x00, "\x01"), "", "")
	f(binaryHeader(0x21, 0x10, ""), "", "")
	f(binaryHeader(0x21, 0x01, "x"+extension(3, "none")), "", "")
	f(binaryHeader(0x21, 0x12, inet), "", "") // no TCP port
	f(binaryHeader(0x21, 0x22, inet6), "", "")
	f(binaryHeader(0x21, 0x31, unix+extension(4, "x")), "", "")
	f(binaryHeader(0x21, 0x32, unix), "", "")
}

// TestDecodeKnownChecksum: a header whose CRC32C was computed elsewhere, bit by
// bit over the whole of it with zeros in its own place.
func TestDecodeKnownChecksum(t *testing.T) {
	header := binaryHeader(0x21, 0x11, inet+extension(typeCRC32C, "\x00\x00\x00\x00"))
	sum := ^uint32(0)
	for _, c := range []byte(header) {
		sum ^= uint32(c)
		for range 8 {
			sum = sum>>1 ^ 0x82F63B78*(sum&1)
		}
	}
	header = header[:len(header)-4] + string(binary.BigEndian.AppendUint32(nil, ^sum))
	if _, _, err := Decode([]byte(header)); err != nil {
		t.Error(err)
	}
	for i := prefixLen; i < len(header); i++ {
		if i == prefixLen+len(inet) {
			continue // the type: it would be another extension
		}
		p := []byte(header)
		p[i] ^= 1
		if _, _, err := Decode(p); err == nil {
			t.Errorf("a bit of byte %d changes nothing", i)
		}
	}
}

// TestDecodeInvalid: the error comes with the byte at which the text is cut by
// "|", not before, and stays whatever follows.
func TestDecodeInvalid(t *testing.T) {
	f := func(marked string, want error) {
		t.Helper()
		before, after, ok := strings.Cut(marked, "|")
		if !ok {
			t.Fatalf("%q has no mark", marked)
		}
		text := before + after
		for i := range len(text) + 1 {
			_, _, err := Decode([]byte(text[:i]))
			if i < len(before) && err != protocol.ErrShort || i >= len(before) && !errors.Is(err, want) {
				t.Errorf("%q: %v", text[:i], err)
			}
		}
	}
	f("\x00|\x00\x00\x08\x04\xd2\x16\x2f", ErrAbsent) // SSLRequest
	f("\x16|\x03\x01\x02\x00\x01", ErrAbsent)         // ClientHello
	f("G|ET / HTTP/1.1\r\n\r\n", ErrAbsent)
	f("PO|ST / HTTP/1.1\r\n\r\n", ErrAbsent)
	f("PROXY\t|TCP4", ErrAbsent)
	f("p|roxy", ErrAbsent)
	f("\r\n\r\n\x00\r\nQUIT\r|\n", ErrAbsent)
	f("\r\n\n|", ErrAbsent)

	f("PROXY  |TCP4", ErrLine)
	f("PROXY TCP5| ", ErrLine)
	f("PROXY UD|P4 ", ErrLine)
	f("PROXY UNKNOWNX| \r\n", ErrLine)
	f("PROXY UNKNOWN "+strings.Repeat("x", maxLine-len("PROXY UNKNOWN "))+"|", ErrLine)
	f("PROXY UNKNOWN "+strings.Repeat("x", maxLine-len("PROXY UNKNOWN \r"))+"\r|\n", ErrLine)
	f("PROXY TCP4 10.1.2.3 192.168.0.1 54321 6432\n|", ErrLine)
	f("PROXY TCP4 10.1.2.3 192.168.0.1 54321 6432\r\r|\n", ErrLine)
	f("PROXY TCP4 10.1.2.3 192.168.0.1 54321 6432\r |\r\n", ErrLine)
	f("PROXY TCP4 10.1.2.3\x00|", ErrLine)
	f("PROXY TCP4 10.1.2.3,| ", ErrLine)
	f("PROXY TCP4 "+strings.Repeat("1", maxLine-len("PROXY TCP4 "))+"|", ErrLine)
	for _, line := range []string{
		"TCP4 10.1.2.3 192.168.0.1 54321", "TCP4 10.1.2.3 192.168.0.1 54321 6432 1", "TCP4 10.1.2.3  192.168.0.1 54321 6432",
		"TCP4 10.1.2.3 192.168.0.1 54321 6432 ", "TCP4 ", "TCP4 10.1.2 192.168.0.1 54321 6432", "TCP4 10.1.2.03 192.168.0.1 54321 6432",
		"TCP4 10.1.2.256 192.168.0.1 54321 6432", "TCP4 ::1 192.168.0.1 54321 6432", "TCP6 10.1.2.3 ::1 54321 6432",
		"TCP6 ::1 10.1.2.3 54321 6432", "TCP6 ::1 1::2::3 54321 6432", "TCP4 10.1.2.3 192.168.0.1 054321 6432",
		"TCP4 10.1.2.3 192.168.0.1 54321 65536", "TCP4 10.1.2.3 192.168.0.1 00 6432", "TCP4 10.1.2.3 192.168.0.1  6432", "TCP4 10.1.2.3 192.168.0.1 6a 1",
	} {
		f("PROXY "+line+"\r\n|", ErrLine)
	}

	f(signature+"\x11|", ErrVersion)
	f(signature+"\x22|", ErrVersion)
	f(signature+"\x00|", ErrVersion)
	f(signature+"\x21\x41|", ErrFamily)
	f(signature+"\x21\x13|", ErrFamily)
	f(signature+"\x21\x11\x00\x0b|"+inet, ErrLength)
	f(signature+"\x21\x21\x00\x23|"+inet6, ErrLength)
	f(signature+"\x21\x31\x00\xd7|"+unix, ErrLength)
	f(signature+"\x21\x11\x10\x01|", ErrLength)
	f(signature+"\x20\x00\xff\xff|", ErrLength)
	f(binaryHeader(0x21, 0x11, inet+"\x04")+"|", ErrTLV)
	f(binaryHeader(0x21, 0x11, inet+"\x04\x00")+"|", ErrTLV)
	f(binaryHeader(0x21, 0x11, inet+"\x04\x00\x01")+"|", ErrTLV)
	f(binaryHeader(0x21, 0x31, unix+"\x04\xff\xff")+"|", ErrTLV)
	f(binaryHeader(0x21, 0x11, inet+extension(typeCRC32C, "abc"))+"|", ErrTLV)
	f(binaryHeader(0x21, 0x11, inet+extension(typeCRC32C, "sums"))+"|", ErrChecksum)
}

// FuzzDecode: the answer to some bytes does not change when more arrive, a
// header takes no more than it may, and bytes of a client that sends none are
// known by their first one.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"PROXY TCP4 10.1.2.3 192.168.0.1 54321 6432\r\n\x00", "PROXY TCP6 ::1 ::2 1 2\r\n", "PROXY UNKNOWN\r\n", "\x00\x00\x00\x08",
		binaryHeader(0x21, 0x11, inet), summed(binaryHeader(0x21, 0x21, inet6+extension(typeCRC32C, "room"))),
		binaryHeader(0x21, 0x31, unix), binaryHeader(0x20, 0, "x"), binaryHeader(0x21, 0x11, inet+extension(4, "x")),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		p = p[:min(len(p), 2*MaxHeader)]
		h, n, err := Decode(p)
		switch {
		case len(p) > 0 && p[0] != 'P' && p[0] != '\r' && err != ErrAbsent:
			t.Fatalf("%q: %v", p, err)
		case err == nil && (n < 15 || n > len(p) || n > MaxHeader || h.Source.IsValid() != h.Destination.IsValid()):
			t.Fatalf("%q: %+v, %d", p, h, n)
		case err != nil && (n != 0 || h != Header{}), errors.Is(err, protocol.ErrShort) && len(p) >= MaxHeader:
			t.Fatalf("%q: %+v, %d, %v", p, h, n, err)
		}
		settled := false
		for i := range p {
			switch cut, _, cutErr := Decode(p[:i]); {
			case cutErr != protocol.ErrShort:
				if cut != h || cutErr != err {
					t.Fatalf("%q: %v after %d bytes, %v after all", p, cutErr, i, err)
				}
				settled = true
			case settled:
				t.Fatalf("%q: undecided after %d bytes, decided before", p, i)
			}
		}
	})
}
