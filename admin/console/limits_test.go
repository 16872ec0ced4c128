package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

// answer sends messages and gives what comes up to the n-th ReadyForQuery.
func answer(t *testing.T, c *pgwire.Conn, n int, messages ...[]byte) string {
	t.Helper()
	if err := c.Send(messages...); err != nil {
		t.Fatal(err)
	}
	all, err := c.ReadUntil('Z', n)
	if err != nil {
		t.Fatal(err)
	}
	return pgwire.Transcript(all)
}

func wants(t *testing.T, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %.300s, want %s", got, want)
	}
}

// TestBounds: what a session keeps for its client has a number.
func TestBounds(t *testing.T) {
	c := client(t, listen(t, newFake()), "admin")
	for i := range statementsMax {
		if err := c.Send(pgwire.Parse(fmt.Sprint("s", i), "SHOW STATE")); err != nil {
			t.Fatal(err)
		}
	}
	if got := answer(t, c, 1, pgwire.Sync()); strings.Contains(got, "Error") {
		t.Fatal(got)
	}
	wants(t, answer(t, c, 1, pgwire.Parse("more", "SHOW STATE"), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Parse("", "SHOW STATE"), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Close('S', "s0"), pgwire.Parse("more", "SHOW STATE"), pgwire.Sync()), "ParseComplete")
	wants(t, answer(t, c, 1, pgwire.Query("DEALLOCATE ALL")), "DEALLOCATE ALL")

	long := "SHOW STATE -- " + strings.Repeat("x", textsMax/2)
	wants(t, answer(t, c, 2, pgwire.Parse("a", long), pgwire.Sync(), pgwire.Parse("b", long), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Close('S', "a"), pgwire.Parse("b", long), pgwire.Sync()), "CloseComplete\nParseComplete")

	wants(t, answer(t, c, 1, pgwire.Query("BEGIN")), "ReadyForQuery T")
	for i := range portalsMax {
		if err := c.Send(pgwire.Bind(fmt.Sprint("p", i), "b")); err != nil {
			t.Fatal(err)
		}
	}
	wants(t, answer(t, c, 1, pgwire.Bind("more", "b"), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Query("ROLLBACK")), "ReadyForQuery I")

	wants(t, answer(t, c, 1, pgwire.Query("BEGIN")), "ReadyForQuery T")
	for i := range resultsMax {
		wants(t, answer(t, c, 1, pgwire.Bind(fmt.Sprint("p", i), "b"), pgwire.Execute(fmt.Sprint("p", i), 1), pgwire.Sync()), "PortalSuspended")
	}
	wants(t, answer(t, c, 1, pgwire.Execute("p0", 1), pgwire.Execute("p0", 0), pgwire.Sync()), "CommandComplete")
	wants(t, answer(t, c, 1, pgwire.Bind("q", "b"), pgwire.Execute("q", 1), pgwire.Sync()), "PortalSuspended")
	wants(t, answer(t, c, 1, pgwire.Bind("r", "b"), pgwire.Execute("r", 1), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Query("ROLLBACK")), "ReadyForQuery I")

	name := strings.Repeat("n", nameMax)
	wants(t, answer(t, c, 1, pgwire.Parse(name, ""), pgwire.Bind(name, name), pgwire.Sync()), "BindComplete")
	wants(t, answer(t, c, 1, pgwire.Parse(name+"n", ""), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Bind(name+"n", name), pgwire.Sync()), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Query("SET application_name = "+name)), "SET")
	wants(t, answer(t, c, 1, pgwire.Query("SET application_name = "+name+"n")), codeTooMany)

	wants(t, answer(t, c, 1, pgwire.Query("SELECT "+strings.Repeat("1,", columnsMax-1)+"1")), "CommandComplete")
	wants(t, answer(t, c, 1, pgwire.Query("SELECT "+strings.Repeat("1,", columnsMax)+"1")), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Query(strings.Repeat("SHOW STATE;", maxStatements+1))), codeTooMany)
	wants(t, answer(t, c, 1, pgwire.Query(strings.Repeat(";", maxTokens))), "EmptyQueryResponse")
	wants(t, answer(t, c, 1, pgwire.Query(strings.Repeat(";", bodyMax-1))), codeTooMany)
}

// TestFormats: formats that are none, or too many, are told.
func TestFormats(t *testing.T) {
	c := client(t, listen(t, newFake()), "admin")
	bind := func(formats string) []byte { return pgwire.Raw('B', []byte("\x00\x00\x00\x00\x00\x00"+formats)) }
	parse := pgwire.Parse("", "SHOW STATE")
	wants(t, answer(t, c, 1, parse, bind("\x00\x01\x00\x02"), pgwire.Sync()), "invalid format code: 2")
	wants(t, answer(t, c, 1, parse, bind("\x00\x03\x00\x01\x00\x00\x00\x00"), pgwire.Sync()), codeProtocol)
	wants(t, answer(t, c, 1, parse, bind("\x00\x02\x00\x01\x00\x00"), pgwire.Execute("", 1), pgwire.Sync()), `DataRow "active" "no"`)
	wants(t, answer(t, c, 1, pgwire.Parse("", "SHOW STATE", 23), pgwire.Sync()), codeUnsupported)
}

// TestSlowReader: rows are made as the client takes them, so that a large view of a
// client that does not read occupies a buffer and no more.
func TestSlowReader(t *testing.T) {
	control := newFake()
	control.large = 100_000
	ours, theirs := net.Pipe() // a connection that holds nothing
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ours, Session{Control: control}) }()
	c := pgwire.Over(theirs)
	if _, err := c.ReadUntil('Z', 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Send(pgwire.Query("SHOW CLIENTS")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ReadUntil('D', 10); err != nil {
		t.Fatal(err)
	}
	cancel()
	_ = ours.Close()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if control.taken > 1000 {
		t.Errorf("%d rows were made for a client that took 10", control.taken)
	}
}

// TestWriteFails: a session whose client cannot be written to ends with the reason.
func TestWriteFails(t *testing.T) {
	broken := errors.New("broken")
	conn := readWriter{strings.NewReader(""), writer(func([]byte) (int, error) { return 0, broken })}
	if err := Serve(t.Context(), conn, Session{Control: newFake()}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestEnd: a client that leaves is no error; the end of the process is told to it.
func TestEnd(t *testing.T) {
	l := listen(t, newFake())
	c := client(t, l, "admin")
	if err := c.Send(pgwire.Terminate()); err != nil {
		t.Fatal(err)
	}
	if err := <-l.ended; err != nil {
		t.Error(err)
	}
	client(t, l, "admin").Close()
	if err := <-l.ended; err != nil {
		t.Error(err)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the process ends")
	r, w := io.Pipe()
	var out bytes.Buffer
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, readWriter{r, &out}, Session{Control: newFake()})
	}()
	cancel(over)
	_ = w.Close() // as the contract has it: Read returns
	if err := <-ended; !errors.Is(err, over) {
		t.Error(err)
	}
	wants(t, out.String(), "SFATAL\x00VFATAL\x00C57P01\x00")
}

// TestLog: commands of admin.users are logged with who gave them, whatever became
// of them; looking is not.
func TestLog(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(slog.NewTextHandler(&lines, nil))
	control := newFake()
	control.fail = errors.New("there is no such thing\nsecond line")
	var out bytes.Buffer
	conn := readWriter{bytes.NewReader(pgwire.Query("SHOW STATE; PAUSE app")), &out}
	if err := Serve(t.Context(), conn, Session{Control: control, Log: log, User: "alice", Admin: true}); err != nil {
		t.Fatal(err)
	}
	got := lines.String()
	wants(t, got, `level=WARN msg="console command failed" user=alice command="PAUSE app" error="there is no such thing"`)
	if strings.Contains(got, "SHOW") {
		t.Error(got)
	}
	wants(t, out.String(), "C55000\x00Mthere is no such thing\x00Dsecond line\x00")
}

// TestRightsChange: what a user may do is what the settings say when a command runs.
func TestRightsChange(t *testing.T) {
	f := func(all, look bool, query, want string) {
		t.Helper()
		control := newFake()
		var out bytes.Buffer
		conn := readWriter{bytes.NewReader(pgwire.Query(query)), &out}
		s := Session{Control: control, User: "alice", Admin: !all, Allowed: func() (bool, bool) { return all, look }}
		if err := Serve(t.Context(), conn, s); err != nil {
			t.Fatal(err)
		}
		wants(t, out.String(), want)
	}
	f(true, true, "PAUSE app", "PAUSE\x00")
	f(true, true, "SHOW FDS", "SHOW\x00")
	f(false, true, "PAUSE app", "C42501\x00Mpermission denied: PAUSE")
	f(false, true, "SHOW FDS", "C42501\x00Mpermission denied: SHOW FDS")
	f(false, true, "SHOW STATE", "SHOW\x00")
	f(false, false, "SHOW STATE", "C42501\x00Muser \"alice\" may not use the console any more")
}

// TestErrorsWithCodes: an error of the pooler may bring its SQLSTATE.
func TestErrorsWithCodes(t *testing.T) {
	control := newFake()
	control.fail = coded{}
	wants(t, answer(t, client(t, listen(t, control), "admin"), 1, pgwire.Query("KILL app")), `"ERROR" "3D000" "no such database"`)
}

type coded struct{}

func (coded) Error() string    { return "no such database" }
func (coded) SQLState() string { return "3D000" }
