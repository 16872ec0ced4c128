//go:build !race

package proxyproto

import "testing"

func TestDecodeAlloc(t *testing.T) {
	header := []byte(summed(binaryHeader(0x21, 0x21, inet6+extension(2, "name")+extension(typeCRC32C, "room"))))
	startup := []byte("\x00\x00\x00\x08\x04\xd2\x16\x2f")
	if n := testing.AllocsPerRun(100, func() {
		_, _, _ = Decode(header)
		_, _, _ = Decode(startup)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
