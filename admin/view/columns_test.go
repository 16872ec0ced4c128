package view

import (
	"encoding/binary"
	"math"
	"reflect"
	"testing"
	"time"
)

// TestEveryFieldIsAColumn: a row has no field that nobody is shown.
func TestEveryFieldIsAColumn(t *testing.T) {
	for _, row := range []any{
		Backpressure{},
		Limit{},
		Route{},
		Performance{},
		Pin{},
		Prepared{},
		Recovery{},
		Fault{},
		Explained{},
		Pool{},
		Database{},
		User{},
		Client{},
		Server{},
		Socket{},
		FD{},
		Item{},
		Mem{},
		Setting{},
	} {
		of := reflect.TypeOf(row)
		seen := map[string]bool{}
		for _, c := range Columns(row) {
			if seen[c.Name] || c.Name == "" {
				t.Errorf("%s: column %q twice or without a name", of, c.Name)
			}
			seen[c.Name] = true
		}
		if len(seen) != of.NumField() {
			t.Errorf("%s has %d fields and %d columns", of, of.NumField(), len(seen))
		}
	}
}

type sample struct {
	Text    string    `col:"text"`
	Int     int       `col:"int"`
	Uint    uint64    `col:"uint"`
	Float   float64   `col:"float"`
	Bool    bool      `col:"bool"`
	Time    time.Time `col:"time"`
	Pointer *string   `col:"pointer"`
	Number  *int      `col:"number"`
	hidden  int
}

// TestValues: a row as text, in binary and for JSON.
func TestValues(t *testing.T) {
	name, n := "x", -7
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
	big := func(n int64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(n))) }
	for _, c := range []struct {
		row          sample
		text, binary []string
		json         []any
	}{
		{
			sample{"a\xffb", -3, math.MaxUint64, 1.5, true, at, &name, &n, 1},
			[]string{"a\uFFFDb", "-3", "9223372036854775807", "1.5", "t", "2026-01-02 02:04:05 UTC", "x", "-7"},
			[]string{"a\uFFFDb", big(-3), big(math.MaxInt64), big(int64(math.Float64bits(1.5))), "\x01", "2026-01-02 02:04:05 UTC", "x", big(-7)},
			[]any{"a\xffb", -3, uint64(math.MaxUint64), 1.5, true, at, "x", -7},
		},
		{
			sample{hidden: 1},
			[]string{"", "0", "0", "0", "f", "NULL", "NULL", "NULL"},
			[]string{"", big(0), big(0), big(0), "\x00", "NULL", "NULL", "NULL"},
			[]any{"", 0, uint64(0), 0.0, false, nil, nil, nil},
		},
	} {
		row := reflect.ValueOf(c.row)
		for i, column := range Columns(sample{}) {
			text, ok := column.AppendText(nil, row)
			if !ok {
				text = []byte("NULL")
			}
			binary, ok := column.AppendBinary(nil, row)
			if !ok {
				binary = []byte("NULL")
			}
			if string(text) != c.text[i] || string(binary) != c.binary[i] || !reflect.DeepEqual(column.Value(row), c.json[i]) {
				t.Errorf("%s: text %q, binary %q, JSON %v", column.Name, text, binary, column.Value(row))
			}
		}
	}
}
