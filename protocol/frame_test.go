package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

func frame(typ byte, length uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{typ}, length)
}

func TestPeekFrame(t *testing.T) {
	f := func(p []byte, typ byte, size int, err error) {
		t.Helper()
		gotTyp, gotSize, gotErr := PeekFrame(p)
		if gotTyp != typ || gotSize != size || !errors.Is(gotErr, err) {
			t.Errorf("%q: %c, %d, %v", p, gotTyp, gotSize, gotErr)
		}
	}
	f(nil, 0, 0, ErrShort)
	f([]byte("Q\x00\x00\x00"), 0, 0, ErrShort)
	f(frame('Q', 3), 'Q', 0, ErrLength)
	f(frame('?', 4), '?', 5, nil)
	f(append(frame('Q', 9), "more than that"...), 'Q', 10, nil)
	f(frame('D', MaxBackendMessage), 'D', MaxBackendMessage+1, nil)
	f(frame('D', MaxBackendMessage+1), 'D', 0, ErrLength)
	f(frame('D', 1<<32-1), 'D', 0, ErrLength)
}

func TestPeekFrontendBounds(t *testing.T) {
	const legal = "QPBDECSHFXdcf"
	large := "QPBFd"
	for c := range 256 {
		typ := byte(c)
		known := bytes.IndexByte([]byte(legal), typ) >= 0
		if _, _, err := PeekFrontend([]byte{typ}); errors.Is(err, ErrType) == known {
			t.Errorf("type %q: %v", rune(typ), err)
		}
		if !known {
			continue
		}
		biggest := uint32(MaxSmallMessage)
		switch {
		case bytes.IndexByte([]byte(large), typ) >= 0:
			biggest = MaxMessage
		case typ == FrontendFlush:
			biggest = 4
		}
		for _, n := range []uint32{0, 3, 4, biggest, biggest + 1, 1 << 31} {
			_, size, err := PeekFrontend(frame(typ, n))
			if ok := n >= 4 && n <= biggest; ok != (err == nil) || (ok && size != int(n)+1) {
				t.Errorf("%c of length %d: %d, %v", typ, n, size, err)
			}
		}
	}
}

func TestPeekBackendBounds(t *testing.T) {
	f := func(typ byte, smallest, biggest uint32) {
		t.Helper()
		for _, n := range []uint32{smallest - 1, smallest, biggest, biggest + 1} {
			_, size, err := PeekBackend(frame(typ, n))
			if ok := n >= smallest && n <= biggest; ok != (err == nil) || (ok && size != int(n)+1) {
				t.Errorf("%c of length %d: %d, %v", typ, n, size, err)
			}
		}
		if _, _, err := PeekBackend([]byte{typ, 0, 0}); !errors.Is(err, ErrShort) {
			t.Errorf("%c cut: %v", typ, err)
		}
	}
	for _, typ := range []byte("RtTDCENASGHWdVv") {
		f(typ, 4, MaxBackendMessage)
	}
	for _, typ := range []byte("123nIsc") {
		f(typ, 4, 4)
	}
	f('Z', 5, 5)
	f('K', 12, 264)
	for _, typ := range []byte("QPBFXfp\x00\xff") {
		if _, _, err := PeekBackend([]byte{typ}); !errors.Is(err, ErrType) {
			t.Errorf("%q: %v", typ, err)
		}
	}
	if _, _, err := PeekBackend(nil); !errors.Is(err, ErrShort) {
		t.Errorf("nothing: %v", err)
	}
}

// FuzzFrames: the three readers agree where they accept, and never accept a
// size that is not what the header says.
func FuzzFrames(f *testing.F) {
	f.Add([]byte("Q\x00\x00\x00\x05\x00Z\x00\x00\x00\x05I"))
	f.Add([]byte("S\x00\x00\x00\x04"))
	f.Add([]byte("D\x40\x00\x00\x04"))
	f.Fuzz(func(t *testing.T, p []byte) {
		for len(p) > 0 {
			typ, size, err := PeekFrame(p)
			for _, peek := range []func([]byte) (byte, int, error){PeekFrontend, PeekBackend} {
				typ2, size2, err2 := peek(p)
				if err2 == nil && (err != nil || typ2 != typ || size2 != size) {
					t.Fatalf("%c %d accepted, PeekFrame says %c %d %v", typ2, size2, typ, size, err)
				}
			}
			if err != nil || size > len(p) {
				return
			}
			decodeAll(p[HeaderLen:size])
			p = p[size:]
		}
	})
}

// decodeAll calls every decoder of a body: none may panic.
func decodeAll(body []byte) {
	ParseMessage(body)
	ParseHead(body)
	QueryText(body)
	BindNames(body)
	ExecutePortal(body)
	DescribeTarget(body)
	CloseTarget(body)
	DecodeParameterStatus(body)
	DecodeReady(body)
	CommandTag(body)
	DecodeError(body)
	ErrorCode(body)
	ErrorEndsSession(body)
}
