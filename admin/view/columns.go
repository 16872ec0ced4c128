package view

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Kind is what the values of a column are.
type Kind uint8

// The kinds.
const (
	Text Kind = iota
	Integer
	Number // with a fraction
	Bool
	Time
)

// Column is one column of a view.
type Column struct {
	Name string
	Kind Kind
	at   int
	null bool // a pointer
}

var columns sync.Map // reflect.Type -> []Column

// Columns gives the columns of a row struct, in their order: its fields with a tag
// col. The slice is shared and not to be changed.
func Columns(row any) []Column { return columnsOf(reflect.TypeOf(row)) }

func columnsOf(t reflect.Type) []Column {
	if known, ok := columns.Load(t); ok {
		return known.([]Column)
	}
	var all []Column
	for i := range t.NumField() {
		f := t.Field(i)
		name, ok := f.Tag.Lookup("col")
		if !ok {
			continue
		}
		c := Column{Name: name, at: i}
		of := f.Type
		if of.Kind() == reflect.Pointer {
			of, c.null = of.Elem(), true
		}
		c.Kind = kindOf(of)
		all = append(all, c)
	}
	columns.Store(t, all)
	return all
}

func kindOf(t reflect.Type) Kind {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return Time
	case t.Kind() == reflect.String:
		return Text
	case t.Kind() == reflect.Bool:
		return Bool
	case t.Kind() == reflect.Float64:
		return Number
	case t.ConvertibleTo(reflect.TypeFor[int64]()):
		return Integer
	}
	panic(fmt.Sprintf("BUG: a view cannot show %s", t))
}

// TimeLayout is how times of day are shown.
const TimeLayout = "2006-01-02 15:04:05 MST"

// AppendText appends the column's value in a row as text, as PostgreSQL would
// write it; ok is false, and nothing appended, for a NULL. Text that came from
// clients in another encoding is made valid UTF-8, and counts beyond the largest
// bigint are shown as that.
func (c Column) AppendText(b []byte, row reflect.Value) (text []byte, ok bool) {
	v, ok := c.field(row)
	if !ok {
		return b, false
	}
	switch c.Kind {
	case Text:
		return append(b, strings.ToValidUTF8(v.String(), "\uFFFD")...), true
	case Bool:
		if v.Bool() {
			return append(b, 't'), true
		}
		return append(b, 'f'), true
	case Number:
		return strconv.AppendFloat(b, v.Float(), 'f', -1, 64), true
	case Time:
		return timeOf(v).UTC().AppendFormat(b, TimeLayout), true
	}
	return strconv.AppendInt(b, integer(v), 10), true
}

// AppendBinary is AppendText in PostgreSQL's binary formats: Integer is a bigint,
// Number a double precision, Bool a boolean; times of day are text.
func (c Column) AppendBinary(b []byte, row reflect.Value) (value []byte, ok bool) {
	v, ok := c.field(row)
	if !ok {
		return b, false
	}
	switch c.Kind {
	case Bool:
		if v.Bool() {
			return append(b, 1), true
		}
		return append(b, 0), true
	case Number:
		return binary.BigEndian.AppendUint64(b, math.Float64bits(v.Float())), true
	case Integer:
		return binary.BigEndian.AppendUint64(b, uint64(integer(v))), true
	}
	return c.AppendText(b, row)
}

// field is the column's field in a row; ok is false for a NULL.
func (c Column) field(row reflect.Value) (v reflect.Value, ok bool) {
	v = row.Field(c.at)
	if c.null {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	return v, c.Kind != Time || !timeOf(v).IsZero()
}

// timeOf reads a time. One that lies in a variable is not copied to the heap.
func timeOf(v reflect.Value) time.Time {
	if v.CanAddr() {
		return *v.Addr().Interface().(*time.Time)
	}
	return v.Interface().(time.Time)
}

func integer(v reflect.Value) int64 {
	if v.CanUint() {
		return int64(min(v.Uint(), math.MaxInt64))
	}
	return v.Int()
}
