package engine_test

// What happens to the stages of a login when the settings are reloaded, when the process drains, and when look-ups, helpers
// and places are short.

import (
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// TestLoginAttackReload: every stage outlives reloads, and ends as it would have.
func TestLoginAttackReload(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	for _, at := range loginStages {
		s := at.reach(t, f)
		s.release() // nothing is held while others log in
		for range 2 {
			_, err := f.Reload(f.settings(t), nil)
			must(t, err)
		}
		f.open(t, "plain_user", "sslmode=require")
		must(t, s.tcp.Close())
	}
	f.empty(t)
	s := f.stranger(t)
	s.secure()
	s.send(pgwire.Startup(0, "user", "password_user", "database", "postgres"))
	s.asked(3)
	f.write(t, "rules", "host all all all reject\n")
	_, err := f.Reload(f.settings(t), nil)
	must(t, err)
	s.send(pgwire.Raw('p', []byte(fortPassword+"\x00"))) // by the rules with which it began
	s.asked(0)
	next := f.stranger(t)
	next.send(pgwire.Startup(0, "user", "password_user"))
	next.endsWith("after the reload", "28000")
}

// TestLoginAttackDrain: a drain ends every stage soon, without waiting for its time.
func TestLoginAttackDrain(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	all := map[string]*stranger{}
	for _, at := range loginStages {
		if at.name != "handshake computed" && at.name != "proof computed" { // they hold the others up
			all[at.name] = at.reach(t, f)
		}
	}
	begin := time.Now()
	must(t, f.Drain(patience, nil))
	if d := time.Since(begin); d > patience/2 {
		t.Errorf("it took %v", d)
	}
	for name, s := range all {
		if code := s.ends(); code != "" && code != "57P01" && name != "cancelled" {
			t.Errorf("%s: %q", name, code)
		}
	}
	f.empty(t)
}

// TestLoginAttackLateLookUp: an answer of PostgreSQL that comes when its client is gone is of no harm; one that comes in
// time lets in who has waited.
func TestLoginAttackLateLookUp(t *testing.T) {
	t.Parallel()
	f := besiege(t, "--capacity.connect-timeout-ms=15000")
	gone := f.stranger(t)
	gone.send(pgwire.Startup(0, "user", "late", "database", "asked"))
	stays := f.stranger(t)
	stays.send(pgwire.Startup(0, "user", "late", "database", "asked"))
	until(t, "both are there", func() bool { return limitRow(t, f.Engine, "max_unauthenticated", "").Current == 2 })
	must(t, gone.tcp.Close())
	until(t, "one is gone", func() bool { return limitRow(t, f.Engine, "max_unauthenticated", "").Current == 1 })
	close(f.block)
	stays.asked(10)
	stays.send(saslInitial("SCRAM-SHA-256", saslFirst))
	stays.asked(11)
	must(t, stays.tcp.Close())
	f.empty(t)
}

// TestLoginAttackDeadLookUp: a PostgreSQL that does not answer a look-up in time fails it, and tells nothing.
func TestLoginAttackDeadLookUp(t *testing.T) {
	t.Parallel()
	f := besiege(t, "--capacity.connect-timeout-ms=300")
	s := f.stranger(t)
	s.send(pgwire.Startup(0, "user", "late", "database", "asked"))
	s.endsWith("a look-up without an answer", "08006")
	f.empty(t)
}

// TestLoginAttackHelpersFull: where as many proofs wait as may, a further login is told so; those that wait are judged, or
// forgotten with their clients.
func TestLoginAttackHelpersFull(t *testing.T) {
	f := besiege(t, "--server.max-unauthenticated=6000", "--server.max-clients=100")
	from := stranger127()
	busy := func() bool { return f.Totals().Closed["overload"] > 0 }
	var all []*stranger
	for range 4300 { // all are there before their proofs wait: after that nobody is let in
		s := f.dial(t, from)
		all = append(all, s)
		s.send(pgwire.Startup(0, "user", "quick_user"))
		s.asked(3)
	}
	release := f.HoldHelpers()
	defer release()
	proved := 0
	for ; proved < len(all) && !busy(); proved++ {
		all[proved].send(pgwire.Raw('p', []byte("wrong\x00")))
	}
	until(t, "one is turned away", busy)
	told := uint64(0)
	for _, s := range all[proved-3 : proved] { // the loops may have taken a few more meanwhile
		must(t, s.tcp.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
		if m, err := s.message(); err == nil && pgwire.ErrorOf(m).Code() == "53300" {
			told++
		}
	}
	if told == 0 || proved < 4096 {
		t.Errorf("%d of %d logins were turned away", told, proved)
	}
	for _, s := range all {
		must(t, s.tcp.Close())
	}
	f.empty(t) // while their proofs wait
	release()
	f.open(t, "quick_user", "sslmode=require")
}

// TestLoginAttackPlaces: where strangers have all places before the login, in whatever stage, users come in as soon as
// these have had their second.
func TestLoginAttackPlaces(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"silent", "ServerHello sent", "half a ClientHello", "challenged", "answer delayed"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := besiege(t, "--server.max-unauthenticated=6", "--server.loops=1")
			var reach loginStage
			for _, at := range loginStages {
				if at.name == name {
					reach = at
				}
			}
			if name == "answer delayed" {
				from := f.failing(t)
				reach.reach = func(t testing.TB, f *fort) *stranger { return f.delayed(t, from) }
			}
			var all []*stranger
			for range 6 {
				all = append(all, reach.reach(t, f))
			}
			until(t, "somebody is displaced", func() bool {
				s := f.stranger(t)
				defer func() { _ = s.tcp.Close() }()
				_, err := s.Write(pgwire.Startup(0, "user", "md5_user"))
				m, readErr := s.message()
				return err == nil && readErr == nil && m.Type == 'R'
			})
			f.open(t, "md5_user", "sslmode=require")
			for _, s := range all {
				must(t, s.tcp.Close())
			}
			f.empty(t)
		})
	}
}
