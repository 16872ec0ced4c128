package statements

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestRandomClientsSeeTheirOwnStatements runs random clients with random
// pipelines over few servers: what each is answered must be what a session of
// its own would have answered, and in the end the tables must be true.
func TestRandomClientsSeeTheirOwnStatements(t *testing.T) {
	var holds, closes, locals, leaks int
	for seed := range uint64(seeds) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newPooler(t, r, 1+r.IntN(3), 1+r.IntN(8), []int{1, 2, 5, 500}[r.IntN(4)])
		idle := 0
		for idle < 2000 {
			if p.step() {
				idle = 0
			} else {
				idle++
			}
		}
		for _, c := range p.clients {
			p.checkClient(seed, c)
		}
		for _, s := range p.servers {
			p.checkServer(seed, s)
		}
		if t.Failed() {
			t.FailNow()
		}
		holds, closes, locals, leaks = holds+p.holds, closes+p.closes, locals+p.locals, leaks+p.leaks
	}
	if holds == 0 || closes == 0 || locals == 0 || leaks == 0 {
		t.Fatalf("%d holds, %d evictions, %d answers made here, %d leaks: the test does not reach what it is for", holds, closes, locals, leaks)
	}
}

const seeds = 500

func (p *pooler) checkClient(seed uint64, c *pooledClient) {
	t := p.t
	if c.left {
		if !slices.Equal(c.got, c.want[:len(c.got)]) {
			t.Errorf("seed %d, %s, which left:\ngot  %q\nwant %q", seed, c.name, c.got, c.want)
		}
		return
	}
	if len(c.script) > 0 {
		t.Errorf("seed %d: %s is stuck at %v", seed, c.name, c.script[0])
		return
	}
	if !slices.Equal(c.got, c.want) {
		t.Errorf("seed %d, %s:\ngot  %q\nwant %q", seed, c.name, c.got, c.want)
		return
	}
	total := 0
	for name, text := range c.direct.named {
		f := c.catalog.Lookup([]byte(name))
		if f.Statement == nil || string(f.Statement.Text()) != text || f.Since != 0 {
			t.Errorf("seed %d: %s has %v for %q, not %q", seed, c.name, f, name, text)
			return
		}
		total += nameSize + f.Statement.Size()
	}
	if c.catalog != nil {
		for _, n := range c.catalog.names {
			if n.latest != nil {
				t.Errorf("seed %d: %s holds what it no longer needs", seed, c.name)
			}
		}
		if c.catalog.unnamed.latest != nil {
			t.Errorf("seed %d: %s holds what it no longer needs", seed, c.name)
		}
	}
	f := c.catalog.Lookup(nil)
	if (f.Statement == nil) != (c.direct.unnamed == nil) || f.Statement != nil && string(f.Statement.Text()) != *c.direct.unnamed {
		t.Errorf("seed %d: %s has %v unnamed", seed, c.name, f)
	} else if f.Statement != nil {
		total += f.Statement.Size()
	}
	if c.catalog.Len() != len(c.direct.named) || c.catalog.Bytes() != total || c.catalog.InFlight() {
		t.Errorf("seed %d: %s counts %d names and %d bytes, not %d and %d", seed, c.name, c.catalog.Len(), c.catalog.Bytes(), len(c.direct.named), total)
	}
}

// checkServer compares what is known of a server with what it has.
func (p *pooler) checkServer(seed uint64, s *pooledServer) {
	t, h := p.t, s.held
	if !s.tracker.Idle() || s.client != nil {
		t.Errorf("seed %d: a server is not idle: %q, %d owed, %d to read, client %v", seed, s.tracker.Status(), s.tracker.Owed(), len(s.sent), s.client)
		return
	}
	known := map[string]bool{}
	n, size := 0, 0
	for c := h.order.next; c != &h.order; c = c.next {
		name := string(c.AppendName(nil))
		if s.pg.named[name] != string(c.statement.Text()) || s.pg.named[name] == "" {
			t.Errorf("seed %d: the server has %q for %q", seed, s.pg.named[name], c.statement.Text())
		}
		known[name] = true
		n, size = n+1, size+c.statement.Size()
	}
	if n != h.Len() || size != h.Bytes() {
		t.Errorf("seed %d: %d copies of %d bytes, counted as %d and %d", seed, n, size, h.Len(), h.Bytes())
	}
	for _, c := range h.closing {
		known[string(c.AppendName(nil))] = true
	}
	for name := range s.pg.named {
		if strings.HasPrefix(name, prefix) && !known[name] {
			t.Errorf("seed %d: %s is left on the server", seed, name)
		}
	}
	for _, older := range h.copies {
		for ; older != nil; older = older.older {
			n--
		}
	}
	if n != 0 {
		t.Errorf("seed %d: the table of copies has %d too few", seed, n)
	}
	p.evict(s)
	for len(s.sent) > 0 {
		p.serve(s)
	}
	if _, ok := h.NextClose(); ok || h.Len() > h.limit {
		t.Errorf("seed %d: %d copies are kept, above %d", seed, h.Len(), h.limit)
	}
	u, _ := h.Unnamed()
	if u != nil && (s.pg.unnamed == nil || *s.pg.unnamed != string(u.Text())) {
		t.Errorf("seed %d: the server's unnamed statement is not %q", seed, u.Text())
	}
}
