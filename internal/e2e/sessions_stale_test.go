package e2e

import (
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
)

// A plan is stale when the table behind it has changed: PostgreSQL says 0A000 (cached plan must not change result type) for
// as long as the statement lives. A pooler whose clients share statements must not hand that on to those who prepare anew.
var staleTable = []string{"DROP TABLE IF EXISTS stale; CREATE TABLE stale(a int); INSERT INTO stale VALUES (1)"}

const staleText = "SELECT * FROM stale"

// migrate changes the table's columns, as somebody else's migration does.
func (s *stage) migrate() {
	s.t.Helper()
	s.pg.Exec(s.t, "ALTER TABLE stale ADD b int DEFAULT 2")
}

// prime prepares the text for a client on both backends.
func (s *stage) prime(a *actor) {
	s.t.Helper()
	a.group(pgwire.Parse("s", staleText))
	for range 2 {
		s.move()
		a.wantGroup("1", invoke("s"))
	}
}

// described is what is retried unseen: the group's first Bind with a Describe of its portal.
func described(statement string, params ...string) []byte {
	all := invoke(statement, params...)
	bind := len(all) - len(pgwire.Execute("", 0))
	return append(append(append([]byte{}, all[:bind]...), pgwire.Describe('P', "")...), all[bind:]...)
}

// TestPS13Described: a group that carries a Describe of the portal never sees that its plan was stale.
func TestPS13Described(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "statement"}, setup: staleTable}, func(s *stage) {
		a := s.client()
		s.prime(a)
		s.migrate()
		a.quiet = true
		for range 4 {
			s.move()
			if s.direct() {
				a.failsGroup("0A000", described("s"))
				continue
			}
			all := a.group(described("s"))
			if row(all) != "1|2" || !strings.Contains(pgwire.Transcript(all), "RowDescription a:23 b:23") {
				s.t.Errorf("got\n%s", pgwire.Transcript(all))
			}
		}
	})
}

// TestPS13NotDescribed: the client knows the old columns, so it is told, once on each backend, and then goes on.
func TestPS13NotDescribed(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "statement"}, setup: staleTable}, func(s *stage) {
		a := s.client()
		s.prime(a)
		s.migrate()
		a.quiet = true
		a.failsGroup("0A000", invoke("s"))
		if s.direct() {
			return
		}
		a.wantGroup("1|2", invoke("s"))
		s.move()
		if all := a.group(invoke("s")); row(all) != "1|2" && errorCode(all) != "0A000" {
			s.t.Errorf("got\n%s", pgwire.Transcript(all))
		}
		a.wantGroup("1|2", invoke("s"))
		s.move()
		a.wantGroup("1|2", invoke("s"))
	})
}

// TestPS13InABlock: there the error passes, and the next use works.
func TestPS13InABlock(t *testing.T) {
	play(t, staging{setup: staleTable}, func(s *stage) {
		a := s.client()
		s.prime(a)
		s.migrate()
		a.exec("BEGIN")
		a.failsGroup("0A000", described("s"))
		a.failsGroup("25P02", invoke("s"))
		a.exec("ROLLBACK")
		a.quiet = true
		if !s.direct() {
			a.wantGroup("1|2", described("s"))
			a.exec("BEGIN")
			a.wantGroup("1|2", invoke("s"))
			a.exec("COMMIT")
		}
	})
}

// TestPS13FreshClient: who prepares the text now never sees 0A000, however it asks, and is told the new columns; the other
// backend's copy is as old as this one's.
func TestPS13FreshClient(t *testing.T) {
	asks := [][][]byte{
		{pgwire.Parse("f", staleText), pgwire.Describe('S', "f"), pgwire.Sync(), invoke("f"), pgwire.Sync()},
		{pgwire.Parse("f", staleText), described("f"), pgwire.Sync(), pgwire.Sync()},
		{pgwire.Parse("f", staleText), invoke("f"), pgwire.Sync(), pgwire.Sync()},
		{pgwire.Parse("f", staleText), pgwire.Sync(), invoke("f"), pgwire.Sync()},
		{pgwire.Parse("", staleText), pgwire.Describe('S', ""), pgwire.Sync(), invoke(""), pgwire.Sync()},
		{pgwire.Parse("", staleText), described(""), pgwire.Sync(), pgwire.Sync()},
	}
	for i, ask := range asks {
		t.Run(string(rune('a'+i)), func(t *testing.T) {
			play(t, staging{modes: []string{"transaction", "statement"}, setup: staleTable}, func(s *stage) {
				old := s.client()
				s.prime(old)
				s.migrate()
				fresh := s.client()
				for range 2 {
					fresh.send(ask...)
					if all := fresh.read('Z', 2); row(all) != "1|2" {
						s.t.Errorf("got\n%s", pgwire.Transcript(all))
					}
					fresh.exec("DEALLOCATE ALL")
					s.move()
				}
			})
		})
	}
}

// TestPS13FreshClientInABlock: the same within a transaction, whether the text is prepared there or before.
func TestPS13FreshClientInABlock(t *testing.T) {
	begin := pgwire.Query("BEGIN")
	asks := [][][]byte{
		{begin, pgwire.Parse("f", staleText), pgwire.Describe('S', "f"), pgwire.Sync(), invoke("f"), pgwire.Sync()},
		{begin, pgwire.Parse("f", staleText), pgwire.Sync(), described("f"), pgwire.Sync()},
		{pgwire.Parse("f", staleText), pgwire.Sync(), begin, invoke("f"), pgwire.Sync()},
		{pgwire.Parse("", "BEGIN"), invoke(""), pgwire.Parse("f", staleText), described("f"), pgwire.Sync(), begin, pgwire.Sync()},
	}
	for i, ask := range asks {
		t.Run(string(rune('a'+i)), func(t *testing.T) {
			play(t, staging{setup: staleTable}, func(s *stage) {
				old := s.client()
				s.prime(old)
				s.migrate()
				fresh := s.client()
				fresh.quiet = true
				for range 2 {
					fresh.send(ask...)
					if all := fresh.read('Z', 3); row(all) != "1|2" {
						s.t.Errorf("got\n%s", pgwire.Transcript(all))
					}
					fresh.exec("COMMIT")
					fresh.exec("DEALLOCATE ALL")
					s.move()
				}
			})
		})
	}
}

// TestPS13PreparedAgain: the same client gets rid of the error by preparing again, under the same name or another.
func TestPS13PreparedAgain(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "session", "statement"}, setup: staleTable}, func(s *stage) {
		a := s.client()
		s.prime(a)
		s.migrate()
		a.failsGroup("0A000", invoke("s"))
		a.group(pgwire.Close('S', "s"))
		a.group(pgwire.Parse("s", staleText), pgwire.Describe('S', "s"))
		a.wantGroup("1|2", invoke("s"))
		a.group(pgwire.Parse("again", staleText), pgwire.Describe('S', "again"), invoke("again"))
	})
}

// TestPS13NothingTwice: what has an effect is done once, and what stood before a stale Bind fails with it.
func TestPS13NothingTwice(t *testing.T) {
	o := staging{modes: []string{"transaction", "statement"}, setup: []string{staleTable[0] + "; DROP TABLE IF EXISTS stale_log; CREATE TABLE stale_log(x text)"}}
	play(t, o, func(s *stage) {
		a := s.client()
		a.group(pgwire.Parse("log", "INSERT INTO stale_log VALUES ($1)"), pgwire.Parse("return", "INSERT INTO stale SELECT 5 WHERE $1 <> '' RETURNING *"))
		a.group(invoke("log", "first"), invoke("return", "x"))
		s.prime(a)
		s.migrate()
		a.failsGroup("0A000", invoke("log", "second"), described("s"))
		a.want("1", "SELECT count(*) FROM stale_log")
		// Too large to be held for a second try: the error passes.
		a.failsGroup("0A000", described("return", strings.Repeat("x", 20<<10)))
		a.want("2", "SELECT count(*) FROM stale")
		a.quiet = true
		if !s.direct() {
			a.wantGroup("5|2", described("return", "x"))
			a.want("3", "SELECT count(*) FROM stale")
			a.wantGroup("1|2", described("s"))
		}
	})
}

// TestPS1326000: the server has lost the statements in a way that nobody could see; a client sees at most one error, none
// where its group can be tried again, and goes on.
func TestPS1326000(t *testing.T) {
	const lose = "SELECT lose_statements()"
	setup := []string{`CREATE OR REPLACE FUNCTION lose_statements() RETURNS void LANGUAGE plpgsql AS 'BEGIN EXECUTE ''DEALLOCATE ALL''; END'`}
	play(t, staging{modes: []string{"transaction", "statement"}, setup: setup}, func(s *stage) {
		a, b := s.client(), s.client()
		a.group(pgwire.Parse("s", "SELECT 's', $1::int"))
		a.wantGroup("s|1", invoke("s", "1"))
		b.exec(lose)
		a.wantGroup("s|2", described("s", "2"))
		a.quiet = true
		b.exec(lose)
		if all := a.group(invoke("s", "3")); row(all) != "s|3" && errorCode(all) != "26000" {
			s.t.Errorf("got\n%s", pgwire.Transcript(all))
		}
		a.wantGroup("s|4", invoke("s", "4"))
		s.move()
		a.wantGroup("s|5", invoke("s", "5"))
	})
}

// TestPS13ParameterTypes: those that a text or a Parse names hold on every backend, before and after a migration.
func TestPS13ParameterTypes(t *testing.T) {
	play(t, staging{modes: []string{"transaction", "statement"}, setup: staleTable}, func(s *stage) {
		texts := func(a *actor) {
			a.group(pgwire.Parse("s", "SELECT 1 FROM stale WHERE a = $1::bigint"), pgwire.Describe('S', "s"), pgwire.Parse("t", "SELECT 1 FROM stale WHERE a = $1", 20))
			for range 2 {
				a.wantGroup("1", pgwire.Describe('S', "s"), pgwire.Describe('S', "t"), invoke("s", "1"), invoke("t", "1"))
				s.move()
			}
		}
		old := s.client()
		texts(old)
		s.pg.Exec(t, "ALTER TABLE stale ALTER a TYPE bigint")
		texts(s.client())
		old.wantGroup("1", pgwire.Describe('S', "s"), pgwire.Describe('S', "t"), invoke("s", "1"), invoke("t", "1"))
	})
}
