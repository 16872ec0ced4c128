package console

import (
	"io"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

// BenchmarkShowClients: 10 000 clients as text, written to nobody.
func BenchmarkShowClients(b *testing.B) {
	control := newFake()
	control.large = 10_000
	input := string(pgwire.Query("SHOW CLIENTS"))
	for b.Loop() {
		conn := readWriter{strings.NewReader(input), io.Discard}
		if err := Serve(b.Context(), conn, Session{Control: control}); err != nil {
			b.Fatal(err)
		}
	}
}
