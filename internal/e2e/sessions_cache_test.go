package e2e

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// serverCopies counts the statements that the backends hold for the protocol; the clients must have left them free.
func (s *stage) serverCopies() (most int) {
	s.t.Helper()
	for range 2 {
		h := s.newHolder()
		h.hold("SELECT count(*) FROM pg_prepared_statements WHERE NOT from_sql")
		n, err := strconv.Atoi(h.held())
		if err != nil {
			s.t.Fatal(err)
		}
		h.release()
		h.c.Close()
		most = max(most, n)
		s.move()
	}
	return most
}

// limited is a stage whose backends hold at most n statements.
func limited(n int) staging {
	return staging{modes: []string{"transaction", "statement"}, flags: []string{fmt.Sprintf("--capacity.max-prepared-statements=%d", n)}}
}

// TestPS10VanishedBeforeSync: a client that vanishes behind a Parse leaves nothing wrong for the next client with that text.
func TestPS10VanishedBeforeSync(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		b := s.client()
		for i := range 12 {
			text := fmt.Sprintf("SELECT 'text %d'", i)
			parse := pgwire.Parse("s", text)
			messages := [][][]byte{
				{parse},
				{parse, pgwire.Flush()},
				{parse, invoke("s")},
				{parse[:9]},
				{pgwire.Parse("", text)},
				{pgwire.Parse("bad", "SELEC"), parse},
			}[i%6]
			gone := pgwire.Login(s.t, "tcp", s.address, startup(nil)...)
			if err := gone.Send(messages...); err != nil {
				s.t.Fatal(err)
			}
			if i%6 == 1 {
				if _, err := gone.ReadUntil('1', 1); err != nil {
					s.t.Fatal(err)
				}
			}
			if i < 6 {
				gone.Reset()
			} else {
				gone.Close()
			}
			name := fmt.Sprint("t", i)
			b.group(pgwire.Parse(name, text), pgwire.Describe('S', name))
			b.wantGroup(fmt.Sprint("text ", i), invoke(name))
			s.move()
			b.wantGroup(fmt.Sprint("text ", i), invoke(name))
		}
	})
}

// TestPS11MoreStatementsThanTheCache: in one group and afterwards, oldest first; the server holds no more than it may.
func TestPS11MoreStatementsThanTheCache(t *testing.T) {
	for _, limit := range []int{1, 2, 100, 500} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			play(t, limited(limit), func(s *stage) {
				a := s.client()
				var parses, binds [][]byte
				for i := range 600 {
					parses = append(parses, pgwire.Parse(fmt.Sprint("s", i), fmt.Sprintf("SELECT %d, $1::text", i)))
					binds = append(binds, invoke(fmt.Sprint("s", i), "x"))
				}
				a.group(append(parses, binds...)...)
				s.move()
				a.group(binds...)
				s.move()
				for i := range 50 {
					a.wantGroup(fmt.Sprintf("%d|y", i*11), invoke(fmt.Sprint("s", i*11), "y"))
				}
				if n := len(s.holders); n > 0 && s.serverCopies() > limit {
					s.t.Errorf("a backend holds %d statements, at most %d are allowed", s.serverCopies(), limit)
				}
			})
		})
	}
}

// TestPS11CacheOfOne: what the running group still needs is not evicted, and portals outlive their statement.
func TestPS11CacheOfOne(t *testing.T) {
	play(t, limited(1), func(s *stage) {
		a, b := s.client(), s.client()
		one, two := pgwire.Parse("a", "SELECT 'a', g FROM generate_series(1, 4) g"), pgwire.Parse("b", "SELECT 'b'")
		a.group(one, invoke("a"), two, invoke("b"), invoke("a"))
		b.group(pgwire.Parse("a", "SELECT 'another a'"), invoke("a"))
		for range 3 {
			s.move()
			b.wantGroup("another a", invoke("a"))
			a.group(pgwire.Bind("p", "a"), pgwire.Execute("p", 1), pgwire.Bind("", "b"), pgwire.Describe('P', "p"), pgwire.Execute("", 0),
				pgwire.Execute("p", 0), pgwire.Close('P', "p"), invoke("a"))
			a.group(pgwire.Describe('S', "b"), pgwire.Describe('S', "a"), invoke("b"), pgwire.Close('S', "b"), invoke("a"), two, invoke("b"))
		}
		a.failsGroup("22P02", invoke("a"), pgwire.Parse("n", "SELECT $1::int"), invoke("n", "no number"), invoke("b"))
		a.group(invoke("b"), invoke("a"), invoke("n", "5"))
	})
}

// TestPS11NoTracking: with max_prepared_statements 0 a client's statements are still its own, and right.
func TestPS11NoTracking(t *testing.T) {
	o := limited(0)
	o.modes, o.size = []string{"transaction"}, 4
	play(t, o, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("s", "SELECT 'a'"))
		b.group(pgwire.Parse("s", "SELECT 'b'"))
		for range 5 {
			a.wantGroup("a", invoke("s"))
			b.wantGroup("b", invoke("s"))
		}
		a.exec("DEALLOCATE s")
		a.failsGroup("26000", invoke("s"))
		b.wantGroup("b", invoke("s"))
	})
}

// TestPS14ManyTexts: texts are told apart by all of their bytes and by their parameter types.
func TestPS14ManyTexts(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "statement"}}, func(s *stage) {
		a := s.client()
		a.quiet = true
		total := *many
		if s.direct() {
			total = 500 // PostgreSQL is not in question
		}
		check := func(i int) {
			name := fmt.Sprint("s", i%1000)
			a.send(pgwire.Close('S', name), pgwire.Parse(name, fmt.Sprintf("SELECT /* %x */ %d", i*7919, i)), invoke(name), pgwire.Sync())
			if all := a.read('Z', 1); row(all) != fmt.Sprint(i) {
				s.t.Fatalf("text %d gives\n%s", i, pgwire.Transcript(all))
			}
		}
		for i := range total {
			check(i)
		}
		s.move()
		for i := max(0, total-1000); i < total; i += 7 {
			a.wantGroup(fmt.Sprint(i), invoke(fmt.Sprint("s", i%1000)))
		}
		a.quiet = false
		const text = "SELECT pg_typeof($1)"
		for i, oid := range []uint32{0, 23, 20, 25, 1700} {
			if oid != 0 {
				a.group(pgwire.Parse(fmt.Sprint("t", i), text, oid))
			}
		}
		a.group(pgwire.Parse("T1", text, 23), pgwire.Parse("t1 ", text, 20))
		s.move()
		for _, name := range []string{"t1", "t2", "t3", "t4", "T1", "t1 "} {
			a.group(pgwire.Describe('S', name), invoke(name, "1"))
		}
	})
}

// wide is a statement with n parameters, and values for them.
func wide(n int) (text string, params []string) {
	var list strings.Builder
	for i := range n {
		if i > 0 {
			list.WriteByte(',')
		}
		fmt.Fprintf(&list, "$%d", i+1)
		params = append(params, strconv.Itoa(i))
	}
	return "SELECT array_length(ARRAY[" + list.String() + "]::int[], 1)", params
}

// TestPS17LargeStatements: 65 535 parameters in a named statement, which may pin, and a text parameter of 32 MB.
func TestPS17LargeStatements(t *testing.T) {
	text, params := wide(65535)
	play(t, staging{modes: []string{"transaction", "session"}}, func(s *stage) {
		a := s.client()
		s.spread()
		a.group(pgwire.Parse("wide", text), pgwire.Parse("long", "SELECT length($1::text)"))
		a.group(pgwire.Describe('S', "wide"))
		a.wantGroup("65535", invoke("wide", params...))
		a.wantGroup("33554432", invoke("long", strings.Repeat("x", 32<<20)))
		a.wantGroup("65535", pgwire.Parse("", text), invoke("", params...))
	})
}

// TestPS17StatementsOfABatch: a statement with 5 000 parameters, as drivers make for batches, follows its client.
func TestPS17StatementsOfABatch(t *testing.T) {
	text, params := wide(5000)
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("wide", text), pgwire.Parse("", text))
		for range 2 {
			s.move()
			a.group(pgwire.Describe('S', "wide"))
			a.wantGroup("5000", invoke("wide", params...))
		}
	})
}

// TestPS33ManyPreparesUpFront: 2 000 groups that only prepare and describe.
func TestPS33ManyPreparesUpFront(t *testing.T) {
	play(t, staging{modes: everyMode}, func(s *stage) {
		a := s.client()
		for i := range 2000 {
			name := fmt.Sprint("up front ", i)
			a.group(pgwire.Parse(name, fmt.Sprintf("SELECT %d + $1::int", i)), pgwire.Describe('S', name))
		}
		s.move()
		random := rand.New(rand.NewPCG(33, 1))
		for range 50 {
			i := random.IntN(2000)
			a.wantGroup(fmt.Sprint(i+1), invoke(fmt.Sprint("up front ", i), "1"))
		}
		s.move()
		a.wantGroup("1", invoke("up front 0", "1"))
	})
}

// TestPS33TooManyStatements: a client may not keep more than the pooler can hold for it; it is told, and goes on.
func TestPS33TooManyStatements(t *testing.T) {
	onlyKinetic(t)
	s := staging{size: 2}.raise(t, pgtest.Shared(t), "transaction", 2)
	a := s.client()
	a.quiet = true
	filler := strings.Repeat("x", 40<<10)
	refused := false
	for i := 0; i < 2000 && !refused; i++ {
		all := a.group(pgwire.Parse(fmt.Sprint("s", i), fmt.Sprintf("SELECT %d /* %s */", i, filler)))
		switch errorCode(all) {
		case "":
		case "54000":
			refused = true
		default:
			t.Fatalf("statement %d: %s", i, pgwire.Transcript(all))
		}
	}
	if !refused {
		t.Error("80 MB of statements were kept for one client")
	}
	a.wantGroup("0", invoke("s0"))
	a.exec("DEALLOCATE ALL")
	a.wantGroup("1", pgwire.Parse("s0", "SELECT 1"), invoke("s0"))
	s.leave()
	s.probe()
}
