package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func packet(code uint32, body string) []byte {
	p := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	p = binary.BigEndian.AppendUint32(p, code)
	return append(p, body...)
}

const version30 = 3 << 16

func TestDecodeStartup(t *testing.T) {
	f := func(p []byte, want Startup) {
		t.Helper()
		for i := range p { // whole only
			if _, _, err := DecodeStartup(p[:i]); !errors.Is(err, ErrShort) {
				t.Fatalf("%q cut at %d: %v", p, i, err)
			}
		}
		got, n, err := DecodeStartup(append(bytes.Clone(p), "behind it"...))
		if err != nil || n != len(p) || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %d, %v, want %+v", p, got, n, err, want)
		}
	}
	f(packet(version30, "\x00"), Startup{Major: 3})
	f(packet(version30+2, "user\x00u\x00database\x00\x00user\x00v\x00\x00"), Startup{
		Major: 3, Minor: 2, Params: []Param{{"user", "u"}, {"database", ""}, {"user", "v"}},
	})
	f(packet(version30+9999, "_pq_.a\x001\x00x\x00y\x00_pq_.\x00\x00\x00"), Startup{
		Major: 3, Minor: 9999, Params: []Param{{"x", "y"}}, PqOptions: []string{"_pq_.a", "_pq_."},
	})
	f(packet(2<<16, "any\x01thing"), Startup{Major: 2})
	f(packet(codeSSLRequest, ""), Startup{Kind: KindSSLRequest})
	f(packet(codeGSSENCRequest, ""), Startup{Kind: KindGSSENCRequest})
	f(packet(codeCancelRequest, "\x00\x00\x01\x02abcd"), Startup{
		Kind: KindCancelRequest, CancelPID: 258, CancelKey: []byte("abcd"),
	})
	long := strings.Repeat("k", MaxCancelKey)
	f(packet(codeCancelRequest, "\xff\xff\xff\xff"+long), Startup{
		Kind: KindCancelRequest, CancelPID: 1<<32 - 1, CancelKey: []byte(long),
	})
	f(packet(version30, "a\x00"+strings.Repeat("v", MaxStartupPacket-4-4)+"\x00\x00"), Startup{
		Major: 3, Params: []Param{{"a", strings.Repeat("v", MaxStartupPacket-4-4)}},
	})
}

func TestDecodeStartupRefuses(t *testing.T) {
	f := func(p []byte, want error) {
		t.Helper()
		if got, n, err := DecodeStartup(p); !errors.Is(err, want) || n != 0 || !reflect.DeepEqual(got, Startup{}) {
			t.Errorf("%q: %+v, %d, %v, want %v", p, got, n, err, want)
		}
	}
	f(binary.BigEndian.AppendUint32(nil, 0), ErrLength)
	f(binary.BigEndian.AppendUint32(nil, 7), ErrLength)
	f(binary.BigEndian.AppendUint32(nil, MaxStartupPacket+5), ErrLength)
	f([]byte("GET / HTTP/1.1\r\n\r\n"), ErrLength)
	f(packet(codeSSLRequest, "x"), ErrLength)
	f(packet(codeGSSENCRequest, "\x00"), ErrLength)
	f(packet(codeCancelRequest, "\x00\x00\x00\x01abc"), ErrLength)
	f(packet(codeCancelRequest, "\x00\x00\x00\x01"+strings.Repeat("k", MaxCancelKey+1)), ErrLength)
	f(packet(version30, ""), ErrStartup)
	f(packet(version30, "user"), ErrStartup)
	f(packet(version30, "user\x00"), ErrStartup)
	f(packet(version30, "user\x00u"), ErrStartup)
	f(packet(version30, "user\x00u\x00"), ErrStartup)
	f(packet(version30, "user\x00u\x00\x00x"), ErrStartup)
}

func TestStartupGet(t *testing.T) {
	s := Startup{Params: []Param{{"a", "1"}, {"b", ""}, {"a", "2"}}}
	f := func(name, want string, wantOK bool) {
		t.Helper()
		if got, ok := s.Get(name); got != want || ok != wantOK {
			t.Errorf("%s: %q, %v", name, got, ok)
		}
	}
	f("a", "2", true)
	f("b", "", true)
	f("A", "", false)
}

// FuzzDecodeStartup: what is accepted encodes to the same packet again.
func FuzzDecodeStartup(f *testing.F) {
	f.Add(packet(version30, "user\x00u\x00_pq_.x\x001\x00\x00"))
	f.Add(packet(codeCancelRequest, "\x00\x00\x01\x02abcd"))
	f.Add(packet(codeSSLRequest, ""))
	f.Add([]byte("\x00\x00\x27\x15"))
	f.Fuzz(func(t *testing.T, p []byte) {
		s, n, err := DecodeStartup(p)
		if err != nil {
			return
		}
		switch {
		case s.Kind == KindCancelRequest:
			if again := AppendCancelRequest(nil, s.CancelPID, s.CancelKey); !bytes.Equal(again, p[:n]) {
				t.Fatalf("%q becomes %q", p[:n], again)
			}
		case s.Kind == KindSSLRequest:
			if again := AppendSSLRequest(nil); !bytes.Equal(again, p[:n]) {
				t.Fatalf("%q becomes %q", p[:n], again)
			}
		case s.Kind == KindStartup && s.Major == Major && len(s.PqOptions) == 0:
			if again := AppendStartup(nil, s.Major, s.Minor, s.Params); !bytes.Equal(again, p[:n]) {
				t.Fatalf("%q becomes %q", p[:n], again)
			}
		}
	})
}
