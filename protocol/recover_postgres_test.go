package protocol

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// vanishing are what clients send, of which every prefix is tried. Everything
// that they write can be counted in t, d and p.
var vanishing = map[string][][]byte{
	"group": {
		pgwire.Parse("", "insert into t values (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(),
		pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Parse("", "selec"), pgwire.Bind("", ""), pgwire.Sync(),
	},
	"block": {
		pgwire.Query("begin; insert into t values (1)"), pgwire.Parse("", "insert into t values (1)"), pgwire.Bind("", ""),
		pgwire.Execute("", 0), pgwire.Sync(), pgwire.Query("select 1/0"), pgwire.Bind("", "none"), pgwire.Sync(),
	},
	"block that begins and ends in groups": {
		pgwire.Parse("b", "begin"), pgwire.Parse("c", "commit"), pgwire.Parse("i", "insert into t values (1)"),
		pgwire.Bind("", "i"), pgwire.Execute("", 0), pgwire.Bind("", "b"), pgwire.Execute("", 0), pgwire.Sync(),
		pgwire.Bind("", "i"), pgwire.Execute("", 0), pgwire.Bind("", "c"), pgwire.Execute("", 0),
		pgwire.Bind("", "i"), pgwire.Execute("", 0), pgwire.Bind("", "c"), pgwire.Execute("", 0), pgwire.Sync(),
	},
	"query and function call behind a group": {
		pgwire.Parse("", "insert into t values (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Query("select 1"),
		pgwire.Parse("", "insert into t values (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.FunctionCall(2560),
		pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Bind("", "none"), pgwire.Query("insert into t values (1)"), pgwire.Sync(),
	},
	"deferred constraint": {
		pgwire.Parse("", "insert into d values (1), (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Query("select 1"),
		pgwire.Parse("", "insert into d values (2), (2)"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Sync(),
	},
	"suspended portal": {
		pgwire.Parse("", "insert into t values (1), (2), (3) returning a"), pgwire.Bind("p", ""), pgwire.Execute("p", 1), pgwire.Flush(),
		pgwire.Execute("p", 1), pgwire.Close('P', "p"), pgwire.Sync(),
	},
	"copy in a query": {
		pgwire.Query("insert into t values (1); copy t from stdin; insert into t values (2); copy t from stdin"),
		pgwire.CopyData([]byte("1\n")), pgwire.Sync(), pgwire.CopyDone(), pgwire.CopyData([]byte("2\n")), pgwire.CopyDone(),
		pgwire.Query("copy t from stdin"), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone(),
	},
	"copy in a group": {
		pgwire.Parse("", "insert into t values (1)"), pgwire.Bind("", ""), pgwire.Execute("", 0),
		pgwire.Parse("", "copy t from stdin"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush(), pgwire.Sync(),
		pgwire.CopyData([]byte("1\n")), pgwire.CopyDone(), pgwire.Sync(),
		pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.CopyData([]byte("x\n")), pgwire.CopyDone(), pgwire.Sync(),
	},
	"taken for a copy": { // as it is one where standard_conforming_strings is off
		pgwire.Parse("", `insert into t values (length('\')) --')); copy t from stdin`),
		pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush(), pgwire.Sync(),
	},
	"vacuum": {pgwire.Parse("", "vacuum p"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Bind("", ""), pgwire.Sync()},
	"procedure that commits": {
		pgwire.Parse("", "call twice()"), pgwire.Bind("", ""), pgwire.Execute("", 0), pgwire.Flush(), pgwire.Sync(),
	},
	"savepoint": {
		pgwire.Query("begin; insert into t values (1); savepoint a; select 1/0"), pgwire.Parse("", "rollback to a"), pgwire.Bind("", ""),
		pgwire.Execute("", 0), pgwire.Flush(), pgwire.Sync(), pgwire.Query("commit"),
	},
}

const vanishingSetup = recordedSetup + `;
	create table p (a int);
	create procedure twice() language plpgsql as $$begin insert into p values (1); commit; insert into p values (2); end$$`

// vanisher plays clients that leave, once without a pooler and once with a
// backend that is recovered.
type vanisher struct {
	t      *testing.T
	server *pgtest.Server
	admin  *pgwire.Conn
}

func (v *vanisher) login() *pgwire.Conn {
	return pgwire.Login(v.t, "unix", v.server.SocketPath(), "user", "postgres", "database", "postgres")
}

// committed counts what is committed, and clears it.
func (v *vanisher) committed() string {
	v.t.Helper()
	rows, err := v.admin.Exec("select (select count(*) from t), (select count(*) from d), (select count(*) from p); delete from t; delete from d; delete from p")
	if err != nil {
		v.t.Fatal(err)
	}
	return strings.Join(rows[0], " ")
}

// direct sends all to PostgreSQL and leaves, though not before PostgreSQL has
// read it all: a session that cannot write its answers may end earlier.
func (v *vanisher) direct(sent [][]byte) string {
	v.t.Helper()
	c := v.login()
	defer c.Close()
	if err := c.Send(sent...); err != nil {
		v.t.Fatal(err)
	}
	if err := c.Net.(*net.UnixConn).CloseWrite(); err != nil {
		v.t.Fatal(err)
	}
	if _, err := c.ReadAll(); err != nil {
		v.t.Fatal(err)
	}
	return v.committed() // the transaction has ended before the connection
}

// vanished is a backend whose client has sent something through a Tracker.
type vanished struct {
	replay
	c *pgwire.Conn
}

// offer sends what the tracker lets through; what it holds waits for answers
// only if the client is patient.
func (v *vanished) offer(messages [][]byte, patient bool) (sent [][]byte) {
	for len(messages) > 0 {
		m := messages[0]
		typ, body := m[0], m[HeaderLen:]
		out := m
		switch verdict := v.tracker.Offer(typ, v.mayCopy(typ, body)); verdict {
		case Hold, Full:
			if !patient {
				return sent
			}
			v.receive()
			continue
		case Drop:
			out = nil
		case ForwardFlush:
			out = append(append([]byte(nil), m...), pgwire.Flush()...)
			fallthrough
		case Forward:
			v.sent(typ, body)
		}
		v.send(out)
		sent = append(sent, m)
		messages = messages[1:]
	}
	return sent
}

func (v *vanished) send(p []byte) {
	if err := v.c.Send(p); err != nil {
		v.t.Fatal(err)
	}
}

// receive takes one message.
func (v *vanished) receive() {
	m, err := v.c.Read()
	if err != nil {
		v.t.Fatal(err)
	}
	var status byte
	if m.Type == BackendReadyForQuery {
		status = m.Body[0]
	}
	a, err := v.tracker.Receive(m.Type, status, ErrorCode(m.Body))
	if err != nil {
		v.t.Fatalf("%c: %v", m.Type, err)
	}
	for range a.Syncs {
		v.send(pgwire.Sync())
	}
	if m.Type == BackendErrorResponse {
		v.marks.Failed()
	}
}

// recover is the client's departure.
func (v *vanished) recover() {
	v.tracker.Orphan()
	v.send(v.tracker.Recover(nil))
	for v.tracker.Owed() > 0 {
		v.receive()
	}
	if v.tracker.Status() == StatusIdle {
		return
	}
	v.tracker.Inject(FrontendQuery)
	v.send(pgwire.Query("ROLLBACK"))
	for v.tracker.Owed() > 0 {
		v.receive()
	}
}

// TestVanishedIsAsDirect: whatever part of it a client has sent when it leaves,
// and whether it has seen the answers, the recovered backend has committed what
// PostgreSQL commits, and serves on.
func TestVanishedIsAsDirect(t *testing.T) {
	v := &vanisher{t: t, server: pgtest.Start(t)}
	v.server.Exec(t, vanishingSetup)
	v.admin = v.login()
	c := v.login()
	for name, messages := range vanishing {
		direct := map[int]string{} // by the number of messages
		for n := range len(messages) + 1 {
			for _, patient := range []bool{false, true} {
				what := fmt.Sprintf("%s, %d messages, patient=%v", name, n, patient)
				client := &vanished{replay{t: t}, c}
				client.tracker.Reset()
				sent := client.offer(messages[:n], patient)
				for patient && client.tracker.Busy() {
					client.receive()
				}
				client.recover()
				if !client.tracker.Idle() {
					t.Fatalf("%s: %s", what, stateText(&client.tracker))
				}
				got := v.committed()
				if direct[len(sent)] == "" {
					direct[len(sent)] = v.direct(sent)
				}
				if want := direct[len(sent)]; got != want {
					t.Errorf("%s: committed in t, d, p: %s, by PostgreSQL %s", what, got, want)
				}
				if _, err := c.Exec("deallocate all"); err != nil {
					t.Fatalf("%s: %v", what, err)
				}
			}
		}
	}
}
