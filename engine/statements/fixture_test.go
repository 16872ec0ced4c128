package statements

import (
	"encoding/binary"
	"testing"

	"pgkinetic/protocol"
)

// outcomes is what a tracker would say: up to done everything is settled, failed
// has failed, and what is above it up to removed was never executed.
type outcomes struct{ done, failed, removed uint64 }

func (o outcomes) Done() uint64 { return o.done }

func (o outcomes) Outcome(number uint64) protocol.Outcome {
	switch {
	case number == o.failed:
		return protocol.Failed
	case number > o.failed && number <= o.removed:
		return protocol.Removed
	}
	return protocol.Executed
}

// executed says that everything up to n was executed.
func executed(n uint64) outcomes { return outcomes{done: n} }

// failedAt says that n has failed, and removed what is behind it up to last.
func failedAt(n, last uint64) outcomes { return outcomes{done: last, failed: n, removed: last} }

// parseBody is a Parse message's body behind the name.
func parseBody(sql string, types ...uint32) []byte {
	b := append([]byte(sql), 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(types)))
	for _, t := range types {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return b
}

// texts interns for one test.
type texts struct {
	t     *testing.T
	store *Store
}

func newTexts(t *testing.T) texts { return texts{t, NewStore()} }

func (x texts) of(sql string) *Statement {
	x.t.Helper()
	st := x.store.Intern(Environment{}, parseBody(sql))
	if st == nil {
		x.t.Fatalf("%q was not taken", sql)
	}
	return st
}

// expect fails unless a name means a text (empty: nothing), resting on an
// operation.
func expect(t *testing.T, c *Catalog, name, sql string, since uint64) {
	t.Helper()
	f := c.Lookup([]byte(name))
	got := ""
	if f.Statement != nil {
		got = string(f.Statement.Text())
	}
	if got != sql || f.Since != since {
		t.Errorf("%.20q means %q since %d, not %q since %d", name, got, f.Since, sql, since)
	}
}
