package e2e

import (
	"fmt"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// TestSettingsWithStatements: a batch of settings goes before a statement that the backend does not have yet, whatever the
// first message of the group is.
func TestSettingsWithStatements(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client("application_name", "a", "search_path", "s1, public")
		b := s.client("application_name", "b", "TimeZone", "Asia/Tokyo")
		const look = "SELECT current_setting('application_name') || current_setting('search_path') || current_setting('TimeZone') || $1"
		for i, client := range []*actor{a, b, a, b} {
			name := fmt.Sprint("s", i)
			client.group(pgwire.Parse(name, look), pgwire.Describe('S', name))
			client.group(pgwire.Parse("", look), pgwire.Describe('S', ""))
			s.move()
			client.exec(fmt.Sprintf("SET work_mem = '%dMB'", i+5))
			for _, c := range []*actor{a, b} {
				c.query("SHOW work_mem")
				s.move()
			}
			client.group(pgwire.Parse("", look), pgwire.Describe('S', ""))
			for range 2 {
				b.query("SHOW work_mem")
				a.query("SHOW work_mem")
				client.group(pgwire.Describe('S', name))
				s.move()
				b.query("SHOW work_mem")
				a.query("SHOW work_mem")
				client.group(invoke(name, "x"))
				client.group(pgwire.Parse("", look))
				b.query("SHOW work_mem")
				a.query("SHOW work_mem")
				client.group(pgwire.Describe('S', ""), invoke("", "y"))
				s.move()
				client.group(pgwire.Close('S', "never"))
				client.group()
				client.group(invoke("", "z"))
			}
			client.failsGroup("42601", pgwire.Parse("", "SELEC"))
			b.query("SHOW work_mem")
			client.failsGroup("26000", invoke("nobody", "x"))
		}
	})
}

// queued sends messages while the only free backend is taken, and reads the answer when it is given back.
// Not all wait for one: what is known is answered without (here).
func (a *actor) queued(here bool, messages ...[]byte) []pgwire.Message {
	a.s.t.Helper()
	if len(a.s.holders) == 0 {
		a.send(messages...)
		return a.read('Z', 1)
	}
	h := a.s.newHolder()
	defer h.c.Close()
	h.hold("SELECT 1")
	h.held()
	a.send(messages...)
	if !here && !a.c.Silent(30*time.Millisecond) {
		a.s.t.Error("a client was served although no backend is free")
	}
	h.release()
	return a.read('Z', 1)
}

// TestStatementsOfAWaitingClient: what is prepared, bound or described may have to wait for its backend, which then may
// need settings and the statement.
func TestStatementsOfAWaitingClient(t *testing.T) {
	play(t, staging{}, func(s *stage) {
		a := s.client("application_name", "a", "TimeZone", "Asia/Tokyo")
		b := s.client("application_name", "b")
		const look = "SELECT current_setting('application_name') || current_setting('TimeZone') || $1"
		groups := map[string][][]byte{
			"unnamed":  {pgwire.Parse("", look), pgwire.Describe('S', ""), pgwire.Sync()},
			"bind":     {invoke("", "x"), pgwire.Sync()},
			"named":    {pgwire.Parse("s", look), pgwire.Describe('S', "s"), pgwire.Sync()},
			"execute":  {invoke("s", "x"), pgwire.Sync()},
			"describe": {pgwire.Describe('S', "s"), pgwire.Sync()},
			"parse":    {pgwire.Parse("", look), pgwire.Sync()},
			"close":    {pgwire.Close('S', "s"), pgwire.Sync()},
			"local":    {pgwire.Close('S', "never"), pgwire.Parse("t", look), pgwire.Close('S', "t"), pgwire.Sync()},
			"flush":    {pgwire.Parse("", look), pgwire.Flush(), pgwire.Sync()},
		}
		for _, other := range []bool{false, true} {
			for _, name := range []string{
				"unnamed", "bind", "parse", "bind", "named", "execute", "describe", "unnamed", "bind", "close", "execute", "local", "flush", "bind", "named", "close",
			} {
				if other { // its settings are another client's
					b.query("SELECT 'between'")
				}
				a.queued(name == "close" || name == "local", groups[name]...)
				s.move()
				if other {
					b.query("SELECT 'between'")
				}
				b.queued(name == "close" || name == "local", groups[name]...)
			}
		}
	})
}
