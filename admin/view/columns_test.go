package view

import (
	"encoding/binary"
	"encoding/json"
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
		json         []string
	}{
		{
			sample{"a\xffb", -3, math.MaxUint64, 1.5, true, at, &name, &n, 1},
			[]string{"a\uFFFDb", "-3", "9223372036854775807", "1.5", "t", "2026-01-02 02:04:05 UTC", "x", "-7"},
			[]string{"a\uFFFDb", big(-3), big(math.MaxInt64), big(int64(math.Float64bits(1.5))), "\x01", "2026-01-02 02:04:05 UTC", "x", big(-7)},
			[]string{`"a\ufffdb"`, "-3", "9223372036854775807", "1.5", "true", `"2026-01-02T02:04:05Z"`, `"x"`, "-7"},
		},
		{
			sample{hidden: 1},
			[]string{"", "0", "0", "0", "f", "NULL", "NULL", "NULL"},
			[]string{"", big(0), big(0), big(0), "\x00", "NULL", "NULL", "NULL"},
			[]string{`""`, "0", "0", "0", "false", "null", "null", "null"},
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
			value := column.AppendJSON(nil, row)
			if string(text) != c.text[i] || string(binary) != c.binary[i] || string(value) != c.json[i] {
				t.Errorf("%s: text %q, binary %q, JSON %s", column.Name, text, binary, value)
			}
		}
	}
}

// JSON has no numbers without an end, and its strings hold anything.
func TestJSON(t *testing.T) {
	columns := Columns(sample{})
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if got := columns[3].AppendJSON(nil, reflect.ValueOf(sample{Float: v})); string(got) != "null" {
			t.Errorf("%v is %s", v, got)
		}
	}
	for _, s := range []string{"plain ~", `quote " and \ slash`, "tab\tline\n\x00\x7f", "é 漢 😀", "<script>&"} {
		got := columns[0].AppendJSON(nil, reflect.ValueOf(sample{Text: s}))
		var back string
		if err := json.Unmarshal(got, &back); err != nil || back != s {
			t.Errorf("%q is %s: %v", s, got, err)
		}
	}
}
