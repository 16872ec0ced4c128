package protocol

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestAnsweredHereIsAsDirect: where MayAnswer says yes, PostgreSQL answers the
// message by its success, pipelined or not; and where a failed block is the reason
// for a no, PostgreSQL does answer by an error.
func TestAnsweredHereIsAsDirect(t *testing.T) {
	server := pgtest.Start(t)
	c := pgwire.Login(t, "unix", server.SocketPath(), "user", "postgres", "database", "postgres")
	begun := [][]byte{pgwire.Parse("s", "select 1"), pgwire.Parse("b", "begin"), pgwire.Sync()}
	for _, before := range []struct {
		name     string
		messages [][]byte
		may      string // which of Parse, Describe and Close, once all before is answered
	}{
		{"nothing", nil, "PDC"},
		{"a block", [][]byte{pgwire.Query("begin")}, "PDC"},
		{"a failed block", [][]byte{pgwire.Query("begin; select 1/0")}, "C"},
		{"a block that failed in a group", [][]byte{pgwire.Bind("", "b"), pgwire.Execute("", 0), pgwire.Bind("", "none"), pgwire.Sync()}, "C"},
		{"a block begun in the group", [][]byte{pgwire.Bind("", "b"), pgwire.Execute("", 0)}, "PDC"},
		{"a group", [][]byte{pgwire.Bind("", "s"), pgwire.Execute("", 0)}, "PDC"},
		{"a block that a Query has ended", [][]byte{pgwire.Query("begin; select 1/0"), pgwire.Query("rollback")}, "PDC"},
		{"a block in a failed pipeline", [][]byte{pgwire.Query("begin"), pgwire.Query("select 1/0"), pgwire.Bind("", "s"), pgwire.Sync()}, "C"},
	} {
		for typ, m := range map[byte][]byte{
			FrontendParse: pgwire.Parse("new", "select 2"), FrontendDescribe: pgwire.Describe('S', "s"), FrontendClose: pgwire.Close('S', "old"),
		} {
			for _, pipelined := range []bool{false, true} {
				v := &vanished{replay{t: t}, c}
				v.tracker.Reset()
				v.offer(begun, true)
				v.offer(before.messages, true)
				for !pipelined && v.tracker.Busy() {
					v.receive()
				}
				may := v.tracker.MayAnswer(typ)
				failed := v.answersByError(m)
				if may && failed {
					t.Errorf("%s, pipelined=%v: %c may be answered here, PostgreSQL refuses it", before.name, pipelined, typ)
				}
				if want := strings.Contains(before.may, string(typ)); !pipelined && (may != want || failed == want) {
					t.Errorf("%s: %c may be answered here: %v, PostgreSQL refuses it: %v", before.name, typ, may, failed)
				}
				v.recover()
				if _, err := c.Exec("deallocate all"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// answersByError sends a message and Sync and reports whether PostgreSQL has not
// executed it.
func (v *vanished) answersByError(m []byte) bool {
	v.t.Helper()
	v.offer([][]byte{m}, true)
	number := v.tracker.Sent()
	v.offer([][]byte{pgwire.Sync()}, true)
	for v.tracker.Done() < number {
		v.receive()
	}
	failed := v.tracker.Outcome(number) != Executed
	for v.tracker.Owed() > 0 {
		v.receive()
	}
	return failed
}
