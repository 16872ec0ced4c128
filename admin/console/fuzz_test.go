package console

import (
	"bytes"
	"context"
	"io"
	"testing"

	"pgkinetic/internal/pgwire"
)

// FuzzParse: any query is read or refused; what is read has texts that are parts of
// it, and reading one of them alone gives the same statement.
func FuzzParse(f *testing.F) {
	for _, q := range []string{
		"SHOW POOLS", "show \"state\"; PAUSE 'a''b'", "SET capacity.max_route_in_flight = 8", "SET ROUTE a weight TO 3",
		"EXPLAIN ADMISSION database=a user=b query='SELECT 1'", "/* a /* b */ */ RESUME -- c", "SELECT 1 AS a, version()", "BEGIN; COMMIT;;",
	} {
		f.Add(q)
	}
	f.Fuzz(func(t *testing.T, query string) {
		s := newSession(t.Context(), readWriter{}, Session{Control: newFake()})
		all, err := s.parse(query)
		if err != nil {
			return
		}
		for _, st := range all {
			alone, err := s.parse(st.text)
			if err != nil || len(alone) != 1 || alone[0].text != st.text || len(alone[0].fields) != len(st.fields) || alone[0].admin != st.admin {
				t.Fatalf("%q of %q: %v %v", st.text, query, alone, err)
			}
		}
	})
}

// FuzzServe: whatever a client sends, Serve answers messages that are whole and ends
// with the input; a user of statistics commands nothing.
func FuzzServe(f *testing.F) {
	for _, dialogue := range [][][]byte{
		{pgwire.Query("SHOW STATE; SHOW POOLS"), pgwire.Terminate()},
		{pgwire.Parse("a", "SHOW VERSION"), pgwire.Bind("p", "a"), pgwire.Describe('P', "p"), pgwire.Execute("p", 1), pgwire.Close('S', "a"), pgwire.Sync()},
		{pgwire.Query("BEGIN"), pgwire.Parse("", "PAUSE"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush(), pgwire.Sync()},
		{pgwire.FunctionCall(1), pgwire.CopyData([]byte("x")), pgwire.Raw('p', []byte("x\x00"))},
	} {
		f.Add(bytes.Join(dialogue, nil))
	}
	f.Fuzz(func(t *testing.T, input []byte) {
		control := newFake()
		var out bytes.Buffer
		conn := readWriter{bytes.NewReader(input), &out}
		_ = Serve(context.Background(), conn, Session{Control: control, User: "stats"})
		if did := control.did(); did != "" && !bytes.Contains([]byte(did), []byte("explain")) {
			t.Errorf("a user of statistics has done %s", did)
		}
		for rest := out.Bytes(); len(rest) > 0; {
			if len(rest) < 5 {
				t.Fatalf("half a message: %q", rest)
			}
			n := int(rest[1])<<24 | int(rest[2])<<16 | int(rest[3])<<8 | int(rest[4])
			if n < 4 || n+1 > len(rest) {
				t.Fatalf("message %q of length %d, %d bytes", rest[0], n, len(rest))
			}
			rest = rest[n+1:]
		}
	})
}

type readWriter struct {
	io.Reader
	io.Writer
}
