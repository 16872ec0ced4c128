package pgwire

import (
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestSessionAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	c := Login(t, "unix", s.SocketPath(), "user", "postgres", "database", "postgres")
	if c.PID == 0 || len(c.Key) != 4 {
		t.Errorf("pid %d, key %x", c.PID, c.Key)
	}
	if err := c.Send(Parse("", "SELECT $1::text, NULL, $2::text"), Bind("", "", []byte("a"), nil), Describe('P', ""),
		Execute("", 0), Close('P', ""), Sync(), Query(""), Query("SELECT 1/0"), Query("LISTEN c; NOTIFY c, 'x'"),
		FunctionCall(1598), Query("COPY (SELECT repeat('a', 300)) TO STDOUT")); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 6)
	if err != nil {
		t.Fatal(err)
	}
	const want = `ParseComplete
BindComplete
RowDescription text:25 ?column?:25 text:25
DataRow "a" NULL NULL
CommandComplete SELECT 1
CloseComplete
ReadyForQuery I
EmptyQueryResponse
ReadyForQuery I
ErrorResponse "ERROR" "22012" "division by zero"
ReadyForQuery I
CommandComplete LISTEN
CommandComplete NOTIFY
NotificationResponse "c\x00x\x00"
ReadyForQuery I
FunctionCallResponse
ReadyForQuery I
CopyOutResponse "\x00\x00\x01\x00\x00"
CopyData <301 bytes, d5dbd06dd7696311>
CopyDone
CommandComplete COPY 1
ReadyForQuery I
`
	got := Transcript(all)
	if i := strings.Index(got, "FunctionCallResponse "); i >= 0 { // random(): its value cannot be known
		end := i + strings.IndexByte(got[i:], '\n')
		got = got[:i] + "FunctionCallResponse" + got[end:]
	}
	if got != want {
		t.Errorf("transcript:\n%s\nwant:\n%s", got, want)
	}
	if !c.Silent(time.Millisecond) {
		t.Error("something came after the last ReadyForQuery")
	}
	if rows, err := c.Exec("SELECT 1; SELECT 2"); err != nil || len(rows) != 2 {
		t.Errorf("Exec gave %v, %v", rows, err)
	}
	if _, err := c.Exec("SELECT 1/0"); err == nil || err.(*Error).Code() != "22012" {
		t.Errorf("Exec of an error gave %v", err)
	}
}

func TestCancelAgainstPostgreSQL(t *testing.T) {
	s := pgtest.Shared(t)
	c := Login(t, "tcp", s.Addr(), "user", "postgres")
	if err := c.Send(Query("SELECT pg_sleep(60)")); err != nil {
		t.Fatal(err)
	}
	for s.Value(t, "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query ~ '^SELECT pg_sleep'") != "1" {
		continue // each turn is a round trip to the server
	}
	if err := Cancel("tcp", s.Addr(), c.PID, c.Key); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', 1)
	if err != nil || all[1].Type != 'E' || ErrorOf(all[1]).Code() != "57014" {
		t.Errorf("after the cancel: %v, %v", Transcript(all), err)
	}
}

func TestRefusedLogin(t *testing.T) {
	s := pgtest.Shared(t)
	c := Dial(t, "tcp", s.Addr())
	_, err := c.Login(0, "user", "nobody-here")
	if e, ok := err.(*Error); !ok || e.Code() != "28000" {
		t.Errorf("Login gave %v, want an *Error with 28000", err)
	}
	if _, err := c.ReadAll(); err != nil {
		t.Errorf("after the refusal: %v", err)
	}
}
