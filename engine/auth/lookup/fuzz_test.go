package lookup

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"pgkinetic/protocol"
)

// FuzzAnswer gives an answer whatever a server may send to the query: records of
// type, 16-bit length, body. Nothing panics; nobody but the user who was asked
// for is found; what is wrong is an *Error.
func FuzzAnswer(f *testing.F) {
	pack := func(messages ...pgproto3.BackendMessage) []byte {
		var all []byte
		for _, m := range messages {
			b, err := m.Encode(nil)
			if err != nil {
				f.Fatal(err)
			}
			all = append(all, b[0])
			all = binary.BigEndian.AppendUint16(all, uint16(len(b)-protocol.HeaderLen))
			all = append(all, b[protocol.HeaderLen:]...)
		}
		return all
	}
	columns := &pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{
		{Name: []byte("user")}, {Name: []byte("secret")}, {Name: []byte("until"), DataTypeOID: oidTimestamptz},
	}}
	row := func(values ...[]byte) *pgproto3.DataRow { return &pgproto3.DataRow{Values: values} }
	secret := []byte("md5d41d8cd98f00b204e9800998ecf8427e")
	f.Add(pack(columns, row([]byte("u"), secret, []byte("2026-01-02 03:04:05.5+00")), &pgproto3.CommandComplete{}))
	f.Add(pack(columns, row([]byte("u"), nil, nil), row([]byte("u"), nil, nil)))
	f.Add(pack(columns, row([]byte("u"), secret), row()))
	f.Add(pack(row(), &pgproto3.RowDescription{}, &pgproto3.NoData{}))
	f.Add(pack(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "42P01", Message: "m"}))
	f.Add(pack(&pgproto3.ErrorResponse{Severity: "ERROR", Code: "22021"}, &pgproto3.NoticeResponse{}))
	f.Add(pack(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "57P01"}))
	f.Add(pack(&pgproto3.CopyOutResponse{}))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := answer{user: "u"}
		for len(data) >= 3 {
			typ, n := data[0], int(binary.BigEndian.Uint16(data[1:]))
			body := data[3:min(len(data), 3+n)]
			data = data[3+len(body):]
			if err := a.take(typ, body); err != nil {
				return
			}
		}
		r, err := a.result()
		var e *Error
		if err != nil && (!errors.As(err, &e) || r != Result{}) {
			t.Fatalf("%+v along with %v", r, err)
		}
		if err == nil && (r.User != "u" || r.Known && a.rows != 1) {
			t.Fatalf("%d rows found %+v", a.rows, r)
		}
	})
}
