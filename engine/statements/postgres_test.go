package statements

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bytesOf is a message on the wire.
func bytesOf(m message) []byte {
	switch m.typ {
	case "P":
		return pgwire.Parse(m.name, m.text)
	case "B":
		return pgwire.Bind("", m.name)
	case "E":
		return pgwire.Execute("", 0)
	case "D":
		return pgwire.Describe('S', m.name)
	case "C":
		return pgwire.Close('S', m.name)
	case "Q":
		return pgwire.Query(m.text)
	}
	return pgwire.Sync()
}

// answerOf is what the model says of a message of a real server; a RowDescription
// is told by its first column, a DataRow by its value.
func answerOf(m pgwire.Message) (a answer, ok bool) {
	a.typ = m.Type
	switch m.Type {
	case 'N', 'S':
		return a, false
	case 'E':
		a.text = pgwire.ErrorOf(m).Code()
	case 'C', 'Z':
		a.text = string(m.Body[:max(1, len(m.Body)-1)])
	case 'T':
		a.text = string(m.Body[2 : 2+slices.Index(m.Body[2:], 0)])
	case 'D':
		a.text = pgwire.Values(m)[0]
	}
	return a, true
}

// TestModelIsPostgreSQL compares the model of pgmodel_test.go with a server, in
// random scripts. What Catalog's comment says of PostgreSQL rests on it.
func TestModelIsPostgreSQL(t *testing.T) {
	s := pgtest.Start(t)
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 3))
		script := randomScript(r, 40)
		model := newSession()
		var want, got []string
		var wire []byte
		readies := 0
		for _, m := range script {
			for _, a := range model.run(m) {
				want = append(want, a.String())
				if a.typ == 'Z' {
					readies++
				}
			}
			wire = append(wire, bytesOf(m)...)
		}
		c := pgwire.Login(t, "tcp", s.Addr(), "user", "postgres", "database", "postgres")
		if err := c.Send(wire); err != nil {
			t.Fatal(err)
		}
		messages, err := c.ReadUntil('Z', readies)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			if a, ok := answerOf(m); ok {
				got = append(got, a.String())
			}
		}
		c.Close()
		if !slices.Equal(want, got) {
			t.Fatalf("seed %d\n%s\nmodel:  %q\nserver: %q", seed, show(script), want, got)
		}
	}
}

func show(script []message) string {
	out := ""
	for _, m := range script {
		out += fmt.Sprintf("%s(%.12q, %q) ", m.typ, m.name, m.text)
	}
	return out
}
