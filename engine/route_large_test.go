package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestClassOfLargeMessage: a message above 16 KiB asks for its permit when its first 16 KiB are here, so its route does not
// depend on where the network has cut it.
func TestClassOfLargeMessage(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	pg.Exec(t, "drop table if exists large_class; create table large_class (a text)")
	e, address := startYAML(t, databases(pg), "--capacity.max-client-buffer-bytes=32768")
	usable(t, login(t, address, "application_name", "app"))
	text := "insert into large_class values ('" + strings.Repeat("x", 100_000) + "')"
	for name, message := range map[string][]byte{
		"Query": pgwire.Query(text),
		"Parse": append(append(append(pgwire.Parse("", text), pgwire.Bind("", "")...), pgwire.Execute("", 0)...), pgwire.Sync()...),
	} {
		for _, cut := range []int{3, 5, 6, 12, 40, 5000, 16_000, 16_384, 16_385, 40_000} {
			before := e.Tallies()
			c := login(t, address, "application_name", "app")
			ran(t, e, fmt.Sprintf("%s cut at %d", name, cut), "postgres/postgres/app/write", func() {
				from := e.Totals().BytesFromClients
				send(t, c, message[:cut])
				until(t, "the first part read", func() bool { return e.Totals().BytesFromClients >= from+uint64(cut) })
				if cut < 16<<10 { // protocol.SmallMessage
					for label, n := range e.Tallies() {
						if n.Admitted != before[label].Admitted {
							t.Errorf("%s: a permit of %s was taken for the first %d bytes", name, label, cut)
						}
					}
				}
				send(t, c, message[cut:])
				if all, err := c.ReadUntil('Z', 1); err != nil || strings.Contains(typesOf(all), "E") {
					t.Fatalf("got %s, %v", pgwire.Transcript(all), err)
				}
				c.Close() // a large Parse keeps the backend until its client leaves
			})
		}
	}
}
