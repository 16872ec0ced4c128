package load

import (
	"bytes"
	"slices"
	"testing"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

func TestScannerAtEveryCut(t *testing.T) {
	long := bytes.Repeat([]byte("x"), maxKept+100)
	stream := slices.Concat(pgmock.AuthenticationOk(), pgmock.DataRow(""), pgwire.Raw('C', nil),
		pgmock.Error("ERROR", "53300", "full"), pgwire.Raw('E', long), pgmock.Ready('I'))
	scan := func(parts ...[]byte) (types string, bodies [][]byte) {
		var s scanner
		for _, data := range parts {
			for len(data) > 0 {
				typ, body, rest, err := s.next(data)
				if err != nil {
					t.Fatal(err)
				}
				if data = rest; typ != 0 {
					types += string(typ)
				}
				if typ == 'E' || typ == 'R' {
					bodies = append(bodies, bytes.Clone(body))
				}
			}
		}
		return types, bodies
	}
	types, bodies := scan(stream)
	if types != "RDCEEZ" || sqlState(bodies[1]) != "53300" || !bytes.Equal(bodies[2], long[:maxKept]) {
		t.Fatalf("messages %s", types)
	}
	for cut := range stream {
		if a, b := scan(stream[:cut], stream[cut:]); a != types || !slices.EqualFunc(b, bodies, bytes.Equal) {
			t.Fatalf("cut at %d: messages %s", cut, a)
		}
	}
}

func TestScannerRefusesLengths(t *testing.T) {
	for _, head := range [][]byte{{'D', 0, 0, 0, 3}, {'D', 0x40, 0, 0, 1}} {
		var s scanner
		if _, _, _, err := s.next(head); err == nil {
			t.Errorf("the header % x is good", head)
		}
	}
}

func TestSQLState(t *testing.T) {
	for body, want := range map[string]string{"": "", "SERROR\x00C42P01\x00\x00": "42P01", "SC\x00MC12345\x00\x00": "", "SERR": ""} {
		if got := sqlState([]byte(body)); got != want {
			t.Errorf("%q has the SQLSTATE %q, want %q", body, got, want)
		}
	}
}
