package engine_test

// Attacks by and through the PROXY protocol.

import (
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

const (
	proxyLine = "PROXY TCP4 10.1.2.3 10.0.0.2 4321 5432\r\n"
	proxyFrom = "127.9.0.0/16"
)

// proxyBinary is a header of version 2 for the same addresses.
func proxyBinary() []byte {
	p := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, 0x11, 0, 12, 10, 1, 2, 3, 10, 0, 0, 2)
	p = binary.BigEndian.AppendUint16(p, 4321)
	return binary.BigEndian.AppendUint16(p, 5432)
}

// behindProxies is a fort whose rule for 10.1.2.3 is trust, and whose proxies are 127.9.0.0/16.
func behindProxies(t testing.TB, mode string) *fort {
	t.Helper()
	f := besiege(t, "--server.proxy-protocol="+mode, "--server.proxy-protocol-from="+proxyFrom)
	must(t, os.WriteFile(filepath.Join(f.dir, "rules"), []byte("host all all 10.1.2.3/32 trust\n"+fortRules), 0o600))
	_, err := f.Reload(f.settings(t, "--server.proxy-protocol="+mode, "--server.proxy-protocol-from="+proxyFrom), nil)
	must(t, err)
	return f
}

// TestLoginAttackProxy: a header is taken from proxies alone, whole, first and once; cut behind any byte it leaves nothing.
func TestLoginAttackProxy(t *testing.T) {
	t.Parallel()
	proxy, startup := net.IPv4(127, 9, 0, 1), pgwire.Startup(0, "user", "somebody", "database", "postgres")
	for _, mode := range []string{"optional", "required"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			f := behindProxies(t, mode)
			for name, header := range map[string][]byte{"v1": []byte(proxyLine), "v2": proxyBinary()} {
				for end := range header {
					s := f.strangerFrom(t, proxy)
					s.send(header[:end])
					must(t, s.tcp.Close())
				}
				s := f.strangerFrom(t, proxy)
				for i := range header {
					s.send(header[i : i+1])
				}
				s.send(startup)
				s.asked(0) // 10.1.2.3 is trusted
				must(t, s.tcp.Close())

				s = f.strangerFrom(t, proxy)
				s.send(header)
				s.secure()
				s.send(startup)
				s.asked(0)
				must(t, s.tcp.Close())

				s = f.strangerFrom(t, proxy)
				s.send(header, header, startup)
				s.endsWith(name+" twice", "08P01")

				s = f.strangerFrom(t, proxy)
				s.send(header)
				s.secure()
				s.send(header)
				s.endsWith(name+" in TLS again", "08P01")

				s = f.strangerFrom(t, proxy)
				s.send(header, pgwire.CancelRequest(1, []byte{1, 2, 3, 4}))
				s.endsWith("a cancel request behind "+name, "")

				s = f.stranger(t)
				s.say(header)
				s.say(startup)
				want := "08P01"
				if mode == "required" {
					want = "" // closed unseen
				}
				s.endsWith(name+" from a stranger", want)
			}
			for name, p := range map[string][]byte{
				"too long a line": []byte("PROXY UNKNOWN " + strings.Repeat("x", 200)),
				"too long a v2":   append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x21, 0x11, 0xff, 0xff),
				"no addresses":    []byte("PROXY TCP4 \r\n"),
				"other address":   []byte("PROXY TCP4 10.1.2.3 ::1 1 2\r\n"),
			} {
				s := f.strangerFrom(t, proxy)
				s.send(p)
				s.endsWith(name, "08P01")
			}
			s := f.strangerFrom(t, proxy)
			s.send(startup)
			if mode == "required" {
				s.endsWith("no header from a proxy", "08P01")
			} else {
				s.asked(10)
				must(t, s.tcp.Close())
			}
			f.empty(t)
		})
	}
}

// TestLoginAttackProxyAddress: failures are those of the address that the proxy names, not of the proxy.
func TestLoginAttackProxyAddress(t *testing.T) {
	t.Parallel()
	f := behindProxies(t, "required")
	fail := func(from string) *stranger {
		s := f.strangerFrom(t, net.IPv4(127, 9, 0, 2))
		s.send([]byte("PROXY TCP4 " + from + " 10.0.0.2 4321 5432\r\n"))
		s.challenged("postgres", "scram_user")
		s.send(s.wrongProof())
		return s
	}
	for range 3 {
		fail("10.9.9.9").endsWith("a wrong proof", "28P01")
	}
	if n := f.Totals().LoginsDelayed; n != 0 {
		t.Errorf("%d of three answers were delayed", n)
	}
	fail("10.9.9.9").endsWith("the fourth", "28P01")
	for range 3 {
		fail("10.9.9.10").endsWith("another's", "28P01")
	}
	if n := f.Totals().LoginsDelayed; n != 1 {
		t.Errorf("%d answers were delayed, want the fourth alone", n)
	}
	if !strings.Contains(f.log.String(), "address=10.9.9.9:4321") {
		t.Error(fmt.Sprint("the log does not name the address: ", f.log))
	}
}
