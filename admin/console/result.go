package console

import (
	"encoding/binary"
	"iter"
	"math"
	"reflect"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/admin/view"
	"pgkinetic/protocol"
)

// field is a column of an answer.
type field struct {
	name string
	kind view.Kind
}

// row is one row of an answer, valid until the next one is made.
type row interface {
	// value appends the i-th column's value; ok is false for a NULL.
	value(dst []byte, i int, inBinary bool) (out []byte, ok bool)
}

// result is what a statement answers. rows is nil where it has none.
type result struct {
	rows iter.Seq[row]
	tag  string // of CommandComplete
}

// done is the result of a statement without rows.
func done(tag string) (result, error) { return result{tag: tag}, nil }

// types are PostgreSQL's for the kinds of columns: OID and length, -1 for any.
var types = [...]struct {
	oid uint32
	len int16
}{
	view.Text:    {25, -1},
	view.Integer: {20, 8},
	view.Number:  {701, 8},
	view.Bool:    {16, 1},
	view.Time:    {25, -1}, // as PgBouncer
}

// rowDescription is what tells a client of the columns. The formats are those of Bind.
func rowDescription(fields []field, f formats) *pgproto3.RowDescription {
	m := &pgproto3.RowDescription{Fields: make([]pgproto3.FieldDescription, len(fields))}
	for i, c := range fields {
		m.Fields[i] = pgproto3.FieldDescription{
			Name: []byte(c.name), DataTypeOID: types[c.kind].oid, DataTypeSize: types[c.kind].len, TypeModifier: -1,
		}
		if f.binary(i) {
			m.Fields[i].Format = pgproto3.BinaryFormat
		}
	}
	return m
}

// appendRow appends DataRow.
func appendRow(dst []byte, r row, columns int, f formats) []byte {
	begin := len(dst)
	dst = append(dst, protocol.BackendDataRow, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(columns))
	for i := range columns {
		start := len(dst)
		dst = binary.BigEndian.AppendUint32(dst, math.MaxUint32) // NULL
		out, ok := r.value(dst, i, f.binary(i))
		dst = out
		if ok {
			binary.BigEndian.PutUint32(dst[start:], uint32(len(dst)-start-4))
		}
	}
	binary.BigEndian.PutUint32(dst[begin+1:], uint32(len(dst)-begin-1))
	return dst
}

// formats are a Bind's: none (all text), one for all columns, or one each.
type formats []int16

func (f formats) binary(i int) bool {
	switch len(f) {
	case 0:
		return false
	case 1:
		return f[0] == pgproto3.BinaryFormat
	}
	return f[i] == pgproto3.BinaryFormat
}

// viewRow is a row of a view.
type viewRow struct {
	columns []view.Column
	of      reflect.Value
}

func (r *viewRow) value(dst []byte, i int, inBinary bool) ([]byte, bool) {
	if inBinary {
		return r.columns[i].AppendBinary(dst, r.of)
	}
	return r.columns[i].AppendText(dst, r.of)
}

// viewRows are the rows of a view with these columns.
func viewRows[T any](columns []view.Column, rows iter.Seq[T]) iter.Seq[row] {
	return func(yield func(row) bool) {
		var of T
		r := &viewRow{columns, reflect.ValueOf(&of).Elem()}
		for of = range rows {
			if !yield(r) {
				return
			}
		}
	}
}

// fieldsOf are the fields for the columns of a view.
func fieldsOf(columns []view.Column) []field {
	all := make([]field, len(columns))
	for i, c := range columns {
		all[i] = field{c.Name, c.Kind}
	}
	return all
}
