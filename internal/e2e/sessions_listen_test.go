package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// heard is the channels and payloads of the notifications among messages.
func heard(all []pgwire.Message) []string {
	var out []string
	for _, m := range all {
		if m.Type == 'A' {
			parts := strings.Split(string(m.Body[4:]), "\x00")
			out = append(out, parts[0]+"="+parts[1])
		}
	}
	return out
}

// hears reads until that notification has come and wants it to be the next one. Nothing of it is compared: when a
// notification comes is not in the protocol's hand.
func (a *actor) hears(want ...string) {
	a.s.t.Helper()
	for _, w := range want {
		m, err := a.c.Read()
		for err == nil && m.Type == 'S' {
			m, err = a.c.Read()
		}
		if got := heard([]pgwire.Message{m}); err != nil || !slices.Equal(got, []string{w}) {
			a.s.t.Fatalf("want the notification %q, got %s, %v", w, m, err)
		}
	}
}

// hearsNothing: what was notified before is not for this client. The probe is a notification that it does get.
func (a *actor) hearsNothing(channel string) {
	a.s.t.Helper()
	a.s.pg.Exec(a.s.t, fmt.Sprintf("NOTIFY %s, 'last'", channel))
	a.hears(channel + "=last")
}

// TestListenFansOut to each client that listens, idle ones at once, whatever the backend.
func TestListenFansOut(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b, c := s.client(), s.client(), s.client()
		a.exec("LISTEN one")
		s.move()
		b.exec("LISTEN one; LISTEN two")
		b.exec("LISTEN one") // twice is once
		c.group(pgwire.Parse("listen", "LISTEN three"), invoke("listen"))
		for i := range 3 {
			s.move()
			s.pg.Exec(s.t, fmt.Sprintf("NOTIFY one, 'first %d'; NOTIFY two, 'second %d'; NOTIFY three", i, i))
			a.hears(fmt.Sprint("one=first ", i))
			b.hears(fmt.Sprint("one=first ", i), fmt.Sprint("two=second ", i))
			c.hears("three=")
		}
		s.pg.Exec(s.t, "NOTIFY nobody; SELECT pg_notify('one', 'by function')")
		a.hears("one=by function")
		b.hears("one=by function")
		c.hearsNothing("three")
		a.want("1", "SELECT 1")
	})
}

// TestListenNotifyOfAClient: clients of the pool notify, also themselves; an own notification comes before ReadyForQuery in
// PostgreSQL, and soon enough here.
func TestListenNotifyOfAClient(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		a.quiet = true
		a.exec("LISTEN one")
		b.exec("NOTIFY one, 'from b'")
		a.hears("one=from b")
		s.move()
		own := heard(a.query("NOTIFY one, 'own'"))
		if len(own) == 0 {
			a.hears("one=own")
		} else if own[0] != "one=own" {
			s.t.Errorf("heard %q", own)
		}
	})
}

// TestListenTransactional: LISTEN and UNLISTEN hold from the commit on, NOTIFY is sent by it.
func TestListenTransactional(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		a.quiet = true
		a.exec("LISTEN probe")
		for _, sql := range []string{
			"BEGIN; LISTEN x; ROLLBACK", "LISTEN x; SELECT 1/0", "BEGIN; SAVEPOINT s; LISTEN x; ROLLBACK TO s; COMMIT", "BEGIN; LISTEN x; UNLISTEN x; COMMIT",
			"BEGIN; LISTEN x; SELECT 1/0; COMMIT",
		} {
			a.query(sql)
			a.query("ROLLBACK")
			s.pg.Exec(s.t, "NOTIFY x")
			a.hearsNothing("probe")
		}
		a.failsGroup("22012", pgwire.Parse("", "LISTEN x"), invoke(""), pgwire.Parse("", "SELECT 1/0"), invoke(""))
		a.group(pgwire.Parse("", "LISTEN x")) // never executed
		s.pg.Exec(s.t, "NOTIFY x")
		a.hearsNothing("probe")
		a.exec("BEGIN; SAVEPOINT s; LISTEN x; RELEASE s; COMMIT")
		s.move()
		s.pg.Exec(s.t, "NOTIFY x, 'now'")
		a.hears("x=now")
		a.exec("BEGIN; UNLISTEN x; ROLLBACK")
		s.pg.Exec(s.t, "NOTIFY x, 'still'")
		a.hears("x=still")
		b.exec("BEGIN; NOTIFY x, 'never'; ROLLBACK")
		a.hearsNothing("probe")
		a.exec("BEGIN; UNLISTEN x; COMMIT")
		s.pg.Exec(s.t, "NOTIFY x")
		a.hearsNothing("probe")
	})
}

// TestListenEnds: by UNLISTEN, UNLISTEN *, DISCARD ALL and by leaving.
func TestListenEnds(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		a.quiet, b.quiet = true, true
		b.exec("LISTEN x; LISTEN y")
		for _, end := range []string{"UNLISTEN x; UNLISTEN y", "UNLISTEN *", "DISCARD ALL", "UNLISTEN nothing; UNLISTEN *"} {
			a.exec("LISTEN x; LISTEN y")
			s.move()
			s.pg.Exec(s.t, "NOTIFY x; NOTIFY y")
			a.hears("x=", "y=")
			b.hears("x=", "y=")
			a.exec(end)
			s.pg.Exec(s.t, "NOTIFY x; NOTIFY y")
			b.hears("x=", "y=")
			a.exec("LISTEN probe")
			a.hearsNothing("probe")
			a.exec("UNLISTEN probe")
		}
		a.exec("LISTEN x")
		a.c.Reset()
		s.pg.Exec(s.t, "NOTIFY x")
		b.hears("x=")
	})
}

// TestListenNames: channels are identifiers.
func TestListenNames(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.quiet = true
		long := strings.Repeat("l", 70)
		a.exec(`LISTEN Upper; LISTEN "Quoted"; LISTEN "with ""quotes"""; LISTEN data; LISTEN ` + long)
		s.move()
		s.pg.Exec(s.t, `NOTIFY upper; NOTIFY "Upper"; NOTIFY "Quoted"; NOTIFY quoted; NOTIFY "with ""quotes"""; NOTIFY data; NOTIFY `+long)
		a.hears("upper=", "Quoted=", `with "quotes"=`, "data=", long[:63]+"=")
		a.exec(`UNLISTEN UPPER; UNLISTEN "Quoted"`)
		s.pg.Exec(s.t, `NOTIFY upper; NOTIFY "Quoted"; NOTIFY data, 'left'`)
		a.hears("data=left")
	})
}

// TestListenUnicodeNames: an identifier may be written with escapes.
func TestListenUnicodeNames(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.quiet = true
		a.exec(`LISTEN U&"d\0061t\+000061"`)
		s.move()
		s.pg.Exec(s.t, "NOTIFY data, 'heard'")
		a.hears("data=heard")
		a.exec(`UNLISTEN U&"!0064ata" UESCAPE '!'; LISTEN probe`)
		s.pg.Exec(s.t, "NOTIFY data")
		a.hearsNothing("probe")
	})
}

// TestListenWhileBusy: inside a block nothing is told; it comes when the block has ended, between two answers.
func TestListenWhileBusy(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.quiet = true
		a.exec("LISTEN x")
		for i := range 3 {
			s.move()
			a.exec("BEGIN")
			s.pg.Exec(s.t, fmt.Sprintf("NOTIFY x, '%d'", i))
			if all := append(a.query("SELECT 'inside'"), a.group(pgwire.Parse("", "SELECT 1"), invoke(""))...); len(heard(all)) > 0 {
				s.t.Errorf("told inside a block:\n%s", pgwire.Transcript(all))
			}
			if got := heard(a.query("COMMIT")); len(got) == 0 {
				a.hears(fmt.Sprint("x=", i))
			} else if !slices.Equal(got, []string{fmt.Sprint("x=", i)}) {
				s.t.Errorf("heard %q", got)
			}
			// In the middle of an answer there is no notification either.
			a.send(pgwire.Query("SELECT repeat('r', 1000) FROM generate_series(1, 20000)"))
			a.read('D', 1)
			s.pg.Exec(s.t, "NOTIFY x, 'rows'")
			if all := a.read('C', 1); len(heard(all)) > 0 {
				s.t.Error("told among rows")
			}
			if len(heard(a.read('Z', 1))) == 0 {
				a.hears("x=rows")
			}
		}
	})
}

// TestListenDoesNotPin: forty clients listen on a pool of two, are all told and all served.
func TestListenDoesNotPin(t *testing.T) {
	play(t, staging{size: 2}, func(s *stage) {
		var all []*actor
		for i := range 40 {
			a := s.client()
			a.exec(fmt.Sprintf("LISTEN common; LISTEN own_%d", i))
			all = append(all, a)
		}
		for i, a := range all {
			s.pg.Exec(s.t, fmt.Sprintf("NOTIFY own_%d, 'for you'", i))
			a.hears(fmt.Sprintf("own_%d=for you", i))
			a.want("served", "SELECT 'served'")
		}
		s.pg.Exec(s.t, "NOTIFY common, 'for all'")
		for _, a := range all {
			a.hears("common=for all")
		}
	})
}

// TestListenNothingMissed: from the answer to LISTEN on every notification comes, each once, in order.
func TestListenNothingMissed(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a, b := s.client(), s.client()
		for i := range 30 {
			a.exec("LISTEN race")
			b.exec(fmt.Sprintf("NOTIFY race, '%d'; NOTIFY race, '%d again'", i, i))
			a.hears(fmt.Sprintf("race=%d", i), fmt.Sprintf("race=%d again", i))
			a.exec("UNLISTEN *")
			if i%5 == 0 {
				s.move()
			}
		}
	})
}

// TestListenerLost: when the connection that listens is lost the clients are told that notifications may be, and then
// listen again without doing anything.
func TestListenerLost(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 2, Flags: []string{"--server.loops=2"}})
	var all []*pgwire.Conn
	for range 4 {
		c := login(t, p)
		ask(t, c, "LISTEN lost")
		all = append(all, c)
	}
	for range 2 {
		if n := s.KillBackends(t, "query ~ '^LISTEN' OR application_name ~ 'listen'"); n == 0 {
			t.Fatal("nobody listens")
		}
		for i, c := range all {
			m, err := c.Read()
			if err != nil || m.Type != 'N' {
				t.Fatalf("client %d got %s, %v; want a notice", i, m, err)
			}
		}
		// The notice says that the connection is back, or that it was lost: a notification comes within a second.
		until(t, 5*time.Second, "a notification after the listener was lost", func() bool {
			s.Exec(t, "NOTIFY lost, 'back'")
			return !all[0].Silent(100 * time.Millisecond)
		})
		for i, c := range all {
			if m, err := c.Read(); err != nil || !slices.Equal(heard([]pgwire.Message{m}), []string{"lost=back"}) {
				t.Fatalf("client %d got %s, %v", i, m, err)
			}
			ask(t, c, "SELECT 1")
			for !c.Silent(50 * time.Millisecond) {
				if _, err := c.Read(); err != nil { // further ones of the same
					t.Fatal(err)
				}
			}
		}
	}
}

// TestListenerSessions: clients that listen cost one session of PostgreSQL beside the pool.
func TestListenerSessions(t *testing.T) {
	onlyKinetic(t)
	s := pgtest.Shared(t)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1})
	for i := range 20 {
		c := login(t, p)
		ask(t, c, fmt.Sprintf("LISTEN session_%d", i))
	}
	if n := s.Backends(t); n != 2 {
		t.Errorf("PostgreSQL has %d sessions, want the pool's one and one that listens", n)
	}
}

// TestST13NoForeignNotifications: who never listened hears nothing, on a backend whose last client did.
func TestST13NoForeignNotifications(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client()
		a.exec("LISTEN ch")
		a.c.Close()
		b, c := s.client(), s.client()
		for i := range 20 {
			c.exec("NOTIFY ch, 'for nobody'")
			b.want(fmt.Sprint(i), fmt.Sprintf("SELECT %d", i)) // the transcript shows what else has come
		}
		if !b.c.Silent(50 * time.Millisecond) {
			s.t.Error("a client that does not listen is told something")
		}
	})
}
