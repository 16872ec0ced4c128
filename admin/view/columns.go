package view

import (
	"fmt"
	"reflect"
	"strconv"
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
// write it; ok is false, and nothing appended, for a NULL.
func (c Column) AppendText(b []byte, row reflect.Value) (text []byte, ok bool) {
	v := row.Field(c.at)
	if c.null {
		if v.IsNil() {
			return b, false
		}
		v = v.Elem()
	}
	switch c.Kind {
	case Text:
		return append(b, v.String()...), true
	case Bool:
		if v.Bool() {
			return append(b, 't'), true
		}
		return append(b, 'f'), true
	case Number:
		return strconv.AppendFloat(b, v.Float(), 'f', -1, 64), true
	case Time:
		t := v.Interface().(time.Time)
		if t.IsZero() {
			return b, false
		}
		return t.UTC().AppendFormat(b, TimeLayout), true
	}
	if v.CanUint() {
		return strconv.AppendUint(b, v.Uint(), 10), true
	}
	return strconv.AppendInt(b, v.Int(), 10), true
}

// Value gives the column's value in a row for JSON: nil for a NULL.
func (c Column) Value(row reflect.Value) any {
	v := row.Field(c.at)
	if c.null {
		if v.IsNil() {
			return nil
		}
		v = v.Elem()
	}
	if c.Kind == Time && v.Interface().(time.Time).IsZero() {
		return nil
	}
	return v.Interface()
}
