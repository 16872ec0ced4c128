package pgmock

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgkinetic/internal/pgwire"
)

// witness is a test that notes what a script finds wrong.
type witness struct {
	testing.TB
	mu    sync.Mutex
	wrong []string
}

func (w *witness) Error(args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprint(args...))
}

func (w *witness) found() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong)
}

// client is a recorded client that prepares statements, group by group.
var client = []struct {
	group  [][]byte
	answer []string // per message, without ReadyForQuery; an error with its code
}{
	{[][]byte{pgwire.Parse("s", "SELECT 1")}, []string{"1"}},
	{[][]byte{pgwire.Bind("", "s"), pgwire.Execute("", 0)}, []string{"2", "C"}},
	{[][]byte{pgwire.Parse("s", "SELECT 2")}, []string{`E 42P05 prepared statement "s" already exists`}},
	{[][]byte{pgwire.Parse("bad", "SELEC"), pgwire.Parse("t", "SELECT 1"), pgwire.Bind("", "t")}, []string{"E 42601 syntax error", "", ""}},
	{[][]byte{pgwire.Parse("v", "SELECT 4")}, []string{"1"}},
	{[][]byte{pgwire.Close('S', "s")}, []string{"3"}},
	{[][]byte{pgwire.Describe('S', "s")}, []string{`E 26000 prepared statement "s" does not exist`}},
	{[][]byte{pgwire.Parse("u", "SELECT 1")}, []string{"1"}},
	{[][]byte{pgwire.Bind("p", "u")}, []string{"2"}},
	{[][]byte{pgwire.Parse("", "SELECT 3")}, []string{"1"}},
	{[][]byte{pgwire.Bind("", "")}, []string{"2"}},
	{[][]byte{pgwire.Close('S', "u")}, []string{"3"}},
}

// recordedClient is client as it is recorded.
func recordedClient(t *testing.T) Recording {
	var r Recording
	for _, line := range client {
		for i, m := range line.group {
			x := Exchange{Sent: m}
			switch typ, text, _ := strings.Cut(line.answer[i], " "); typ {
			case "E":
				code, text, _ := strings.Cut(text, " ")
				x.Answer = Error("ERROR", code, text)
			case "C":
				x.Answer = Complete("SELECT 0")
			case "1", "2", "3":
				x.Answer = pgwire.Raw(typ[0], nil)
			}
			r = append(r, x)
		}
		r = append(r, Exchange{Sent: pgwire.Sync(), Answer: Ready('I')})
	}
	all, err := ParseRecordings("PostgreSQL\n"+r.Format("client"), func(string) (sent [][]byte) {
		for _, x := range r {
			sent = append(sent, x.Sent)
		}
		return sent
	})
	if err != nil {
		t.Fatal(err)
	}
	return all["client"]
}

// group is what a pooler sends up to a Sync, and the answer, without ReadyForQuery.
type group struct {
	sent [][]byte
	want string
}

func of(want string, sent ...[]byte) group { return group{sent, want} }

// plays lets a pooler send groups and gives what the script finds wrong.
func plays(t *testing.T, groups []group) (r *Replay, wrong []string) {
	w := &witness{TB: t}
	r = &Replay{}
	r.Begin(recordedClient(t), 0)
	c := pgwire.Login(t, "tcp", Start(w, Login(), r.Serve()).Addr(), "user", "postgres")
	for _, g := range groups {
		if err := c.Send(append(g.sent, pgwire.Sync())...); err != nil {
			t.Fatal(err)
		}
		ends := 1
		if g.sent != nil && g.sent[0][0] == 'Q' {
			ends++
		}
		all, err := c.ReadUntil('Z', ends)
		if err != nil {
			return r, w.found()
		}
		if got := brief(all[:len(all)-1]); got != g.want {
			t.Errorf("%q: got %s, want %s", g.sent, got, g.want)
		}
	}
	return r, w.found()
}

func brief(all []pgwire.Message) string {
	var b strings.Builder
	for _, m := range all {
		b.WriteByte(m.Type)
		if m.Type == 'E' {
			b.WriteString(" " + pgwire.ErrorOf(m).Fields['M'])
		}
	}
	return b.String()
}

// pooled is client as a pooler sends it, under names of its own.
var pooled = []group{
	of("1", pgwire.Parse("k1", "SELECT 1")),
	of("2C", pgwire.Bind("", "k1"), pgwire.Execute("", 0)),
	of(`E prepared statement "k1" already exists`, pgwire.Parse("k1", "SELECT 2")),
	of("E syntax error", pgwire.Parse("k2", "SELEC"), pgwire.Parse("k3", "SELECT 1"), pgwire.Bind("", "k3")),
	of("1", pgwire.Parse("k4", "SELECT 4")),
	of(`E prepared statement "s" does not exist`, pgwire.Describe('S', "s")),
	of("2", pgwire.Bind("p", "k1")),
	of("1", pgwire.Parse("", "SELECT 3")),
	of("2", pgwire.Bind("", "")),
}

// but is pooled with one group replaced.
func but(at int, with ...group) []group {
	return slices.Replace(slices.Clone(pooled), at, at+1, with...)
}

// TestReplayOfStatements: a pooler may use other names, leave out what it can answer by itself, parse again and close.
func TestReplayOfStatements(t *testing.T) {
	parse := func(name string) []byte { return pgwire.Parse(name, "SELECT 1") }
	for name, groups := range map[string][]group{
		"as little as can be":                 pooled,
		"a Sync of its own":                   but(5, of(""), pooled[5]),
		"a Parse before each use":             but(6, of("12", parse("k5"), pgwire.Bind("p", "k5"))),
		"closed and parsed again":             but(1, of("312C", pgwire.Close('S', "k1"), parse("k1"), pgwire.Bind("", "k1"), pgwire.Execute("", 0))),
		"all gone and parsed again":           but(6, of("CZ12", clearAll, parse("k1"), pgwire.Bind("p", "k1"))),
		"what the client could answer itself": but(6, of("1", parse("k5")), of("2", pgwire.Bind("p", "k5"))),
		"the unnamed one again":               but(8, of("312", pgwire.Close('S', ""), pgwire.Parse("", "SELECT 3"), pgwire.Bind("", ""))),
		"thrown away": but(3, of("E syntax error", pgwire.Parse("k2", "SELEC"), pgwire.Close('S', "k1"), parse("k3"),
			pgwire.Bind("", "k3"))),
	} {
		t.Run(name, func(t *testing.T) {
			r, wrong := plays(t, groups)
			if wrong != nil || r.Rest() != nil {
				t.Errorf("%q is wrong, %q is missing", wrong, r.Rest())
			}
		})
	}
}

// TestReplayRefusesStatements: what finds another statement than the client's, or none, fails the test.
func TestReplayRefusesStatements(t *testing.T) {
	for name, groups := range map[string][]group{
		"Bind under the client's name":        but(1, of("", pgwire.Bind("", "s"))),
		"Bind of another text":                but(6, of("", pgwire.Bind("p", "k4"))),
		"Bind of what was closed":             but(1, of("3", pgwire.Close('S', "k1")), of("", pgwire.Bind("", "k1"))),
		"Bind of what was thrown away":        but(6, of("", pgwire.Bind("p", "k3"))),
		"Bind of the unnamed one":             but(1, of("", pgwire.Bind("", ""))),
		"an unnamed one that a Query dropped": but(8, of("CZ", clearAll), of("", pgwire.Bind("", ""))),
		"Describe of what the client closed":  but(5, of("", pgwire.Describe('S', "k1"))),
		"Parse of a text of nobody's":         but(1, of("", pgwire.Parse("k9", "SELECT 9"))),
		"Parse of a text that was refused":    but(6, of("", pgwire.Parse("k9", "SELECT 2"))),
		"Parse of an unnamed one's text":      but(1, of("", pgwire.Parse("k9", "SELECT 3"))),
		"Parse of a name in use":              but(1, of("", pgwire.Parse("k1", "SELECT 1"))),
		"Close of a name never given":         but(1, of("", pgwire.Close('S', "k9"))),
		"Parse left out that fails":           but(3),
		"Parse left out of a new text":        but(0),
	} {
		t.Run(name, func(t *testing.T) {
			if r, wrong := plays(t, groups); wrong == nil {
				t.Errorf("it is not found; %q is missing", r.Rest())
			}
		})
	}
}

// TestReplayMisses: what a pooler must send is missing at the end if it has not.
func TestReplayMisses(t *testing.T) {
	for at, name := range map[int]string{0: "Parse", 1: "Bind", 5: "Describe"} {
		r, wrong := plays(t, pooled[:at])
		if wrong != nil || r.Rest() == nil || r.Rest()[0] != name[0] {
			t.Errorf("%q is wrong, %q is missing, want a %s", wrong, r.Rest(), name)
		}
	}
}

// clearAll is a Query that takes all named statements away.
var clearAll = pgwire.Query("DEALLOCATE ALL;")
