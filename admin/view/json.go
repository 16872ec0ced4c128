package view

import (
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"time"
)

// AppendJSON appends the column's value in a row as a JSON value: a Time as RFC 3339,
// null for a NULL and for a number that is none or has no end. Bytes that are no UTF-8
// become U+FFFD.
func (c Column) AppendJSON(b []byte, row reflect.Value) []byte {
	v, ok := c.field(row)
	if !ok {
		return append(b, "null"...)
	}
	switch c.Kind {
	case Text:
		return appendString(b, v.String())
	case Bool:
		return strconv.AppendBool(b, v.Bool())
	case Number:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return append(b, "null"...)
		}
	case Time:
		return append(timeOf(v).UTC().AppendFormat(append(b, '"'), time.RFC3339Nano), '"')
	}
	b, _ = c.AppendText(b, row)
	return b
}

func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' || s[i] == '"' || s[i] == '\\' {
			quoted, _ := json.Marshal(s) // of a string it does not fail
			return append(b, quoted...)
		}
	}
	return append(append(append(b, '"'), s...), '"')
}
