package statements

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
)

// pooledServer is a server connection as the engine keeps one, with a model of
// PostgreSQL behind it that takes its messages one by one.
type pooledServer struct {
	pg      *session
	tracker protocol.Tracker
	held    *Held
	sent    []message
	client  *pooledClient
}

// pooledClient is a client that reaches servers through Catalog and Held; want
// is what a session of its own would have answered.
type pooledClient struct {
	name    string
	catalog *Catalog
	cache   *Cache
	direct  *session
	script  []message
	server  *pooledServer
	group   uint64  // number of the first message of the group
	portal  *string // text of the last Bind
	copies  bool    // its unnamed statements are bound as copies
	left    bool
	want    []string
	got     []string
	local   []localAnswer // of messages answered here, not given out yet
}

type localAnswer struct {
	number uint64
	answer answer
}

type pooler struct {
	t       *testing.T
	r       *rand.Rand
	store   *Store
	servers []*pooledServer
	clients []*pooledClient
	holds   int
	closes  int
	locals  int
	leaks   int
}

func newPooler(t *testing.T, r *rand.Rand, servers, clients, limit int) *pooler {
	p := &pooler{t: t, r: r, store: NewStore()}
	if r.IntN(4) == 0 {
		p.store.mask = 3 // statements share hashes
	}
	for range servers {
		s := &pooledServer{pg: newSession(), held: NewHeld(limit, 1<<20)}
		s.pg.strict = true
		s.pg.halfway = r.IntN(2) == 0
		s.tracker.Reset()
		p.servers = append(p.servers, s)
	}
	cache := NewCache(p.store)
	for i := range clients {
		c := &pooledClient{name: fmt.Sprint("client ", i), cache: cache, direct: newSession(), copies: r.IntN(2) == 0}
		c.direct.strict = true
		c.script = randomScript(r, 30)
		for i := range c.script {
			if m := &c.script[i]; m.text == "discard all" && r.IntN(3) == 0 {
				m.text = cancelledDiscard
			}
		}
		p.clients = append(p.clients, c)
	}
	return p
}

// step lets a client send or a server answer; it reports whether anything moved.
func (p *pooler) step() bool {
	if p.r.IntN(2) == 0 {
		return p.serve(p.servers[p.r.IntN(len(p.servers))])
	}
	c := p.clients[p.r.IntN(len(p.clients))]
	if c.left || len(c.script) == 0 {
		return false
	}
	if p.r.IntN(60) == 0 {
		p.vanish(c)
		return true
	}
	if c.server == nil && !p.link(c) {
		return false
	}
	m := c.script[0]
	p.evict(c.server)
	if !p.forward(c, m) {
		p.holds++
		return false
	}
	c.script = c.script[1:]
	for _, a := range c.direct.run(m) {
		c.want = append(c.want, a.String())
	}
	p.part(c.server)
	return true
}

func (p *pooler) link(c *pooledClient) bool {
	s := p.servers[p.r.IntN(len(p.servers))]
	if s.client != nil || !s.tracker.Idle() {
		return false
	}
	s.client, c.server = c, s
	c.group = s.tracker.Sent() + 1
	if p.r.IntN(4) == 0 {
		p.inject(s, "select 'c0' as c0")
	}
	return true
}

// inject sends a simple Query of ours.
func (p *pooler) inject(s *pooledServer, text string) {
	if s.tracker.Inject(protocol.FrontendQuery) == protocol.Drop {
		p.t.Fatal("a Query of ours was dropped")
	}
	s.held.Query(s.tracker.Sent())
	if text == "deallocate all" {
		s.held.Clear(s.tracker.Sent())
	}
	s.sent = append(s.sent, message{"Q", "", text})
}

// part takes a client off a server that is free.
func (p *pooler) part(s *pooledServer) {
	if !s.tracker.Idle() {
		if s.client == nil && s.tracker.Owed() == 0 {
			p.inject(s, "rollback")
		}
		return
	}
	if s.client != nil {
		s.client.server, s.client = nil, nil
	}
	if s.held.Leaked() {
		p.leaks++
		p.inject(s, "deallocate all")
	}
}

// vanish makes a client leave in the middle of whatever it is at.
func (p *pooler) vanish(c *pooledClient) {
	c.left = true
	s := c.server
	if s == nil {
		return
	}
	s.client, c.server = nil, nil
	s.tracker.Orphan()
	for wire := s.tracker.Recover(nil); len(wire) > 0; {
		typ, size, err := protocol.PeekFrame(wire)
		if err != nil {
			p.t.Fatal(err)
		}
		text := ""
		if typ == 'Q' {
			text = "rollback"
		}
		s.sent = append(s.sent, message{string(typ), "", text})
		wire = wire[size:]
	}
	s.held.Query(s.tracker.Sent())
	p.part(s)
}

// evict sends a Close for what is to be closed: before a message of the client,
// whose Sync covers it.
func (p *pooler) evict(s *pooledServer) {
	for s.tracker.MayInject() && s.tracker.Owed() < protocol.MaxOwed/2 {
		id, ok := s.held.NextClose()
		if !ok || s.tracker.Inject(protocol.FrontendClose) == protocol.Drop {
			return
		}
		s.held.CloseSent(s.tracker.Sent())
		s.sent = append(s.sent, message{"C", string(AppendName(nil, id)), ""})
		p.closes++
	}
}

// forward takes a message of a client; false: it is held.
func (p *pooler) forward(c *pooledClient, m message) bool {
	s := c.server
	if c.group > s.tracker.Sent()+1 {
		p.t.Fatal("the group begins in the future")
	}
	sent := false
	switch m.typ {
	case "P":
		sent = p.forwardParse(c, m)
	case "B", "D":
		sent = p.forwardUse(c, m)
	case "C":
		sent = p.forwardClose(c, m)
	case "E":
		if sent = p.offer(c, m); sent && c.portal != nil && clears(*c.portal) {
			p.ifSent(c, func(number uint64) { c.catalog.Clear(number); s.held.Clear(number) })
		}
	case "Q":
		sent = p.forwardQuery(c, m)
	case "S":
		sent = p.offer(c, m)
	}
	if sent && (m.typ == "S" || m.typ == "Q") {
		c.group = s.tracker.Sent() + 1
	}
	return sent
}

func clears(text string) bool {
	return text == "deallocate all" || strings.HasPrefix(text, "discard all")
}

// offered is whether the last offer was sent and not dropped.
var offered bool

func (p *pooler) offer(c *pooledClient, m message) bool {
	switch c.server.tracker.Offer(m.typ[0], false) {
	case protocol.Hold, protocol.Full:
		return false
	case protocol.Drop:
		offered = false
		return true
	}
	offered = true
	c.server.sent = append(c.server.sent, m)
	return true
}

func (p *pooler) ifSent(c *pooledClient, f func(number uint64)) {
	if offered {
		f(c.server.tracker.Sent())
	}
}

// answerHere takes a message's place among the answers without sending it.
func (p *pooler) answerHere(c *pooledClient, typ byte, a answer) (number uint64) {
	p.locals++
	if v := c.server.tracker.Local(typ); v != protocol.AnswerNow && v != protocol.AnswerLater {
		p.t.Fatalf("Local: %v", v)
	}
	number = c.server.tracker.Sent()
	c.local = append(c.local, localAnswer{number, a})
	p.giveLocal(c)
	return number
}

// giveLocal gives out the answers made here whose turn has come.
func (p *pooler) giveLocal(c *pooledClient) {
	t := &c.server.tracker
	for len(c.local) > 0 && c.local[0].number <= t.Done() {
		if t.Outcome(c.local[0].number) == protocol.Executed {
			c.got = append(c.got, c.local[0].answer.String())
		}
		c.local = c.local[1:]
	}
}

// relies tells whether a message of the client's group may rest on an operation.
func (c *pooledClient) relies(since uint64) bool { return since == 0 || since >= c.group }

func (p *pooler) statement(c *pooledClient, text string) *Statement {
	if c.catalog == nil {
		c.catalog = new(Catalog)
	}
	st := c.cache.Statement(Environment{}, pgwire.Parse("", text)[6:])
	if st == nil {
		p.t.Fatalf("no statement for %q", text)
	}
	return st
}

func (p *pooler) forwardParse(c *pooledClient, m message) bool {
	s := c.server
	f := c.catalog.Lookup([]byte(m.name))
	if m.name != "" && !c.relies(f.Since) {
		return false
	}
	st := p.statement(c, m.text)
	if m.name != "" && f.Statement != nil {
		// PostgreSQL is to say itself that the name is in use.
		id, ok := p.prepare(c, f.Statement)
		return ok && p.offer(c, message{"P", id, m.text})
	}
	if copied, since := s.held.Find(st); copied != nil && since == 0 && s.tracker.MayAnswer('P') && (m.name != "" || c.copies) && p.r.IntN(3) > 0 {
		number := p.answerHere(c, 'P', answer{'1', ""})
		c.catalog.Parse(number, []byte(m.name), st)
		c.catalog.Settle(&s.tracker)
		return true
	}
	if m.name == "" && !c.copies {
		sent := p.offer(c, message{"P", "", m.text})
		if sent {
			p.ifSent(c, func(number uint64) { c.catalog.Parse(number, nil, st); s.held.ParseUnnamed(number, st) })
		}
		return sent
	}
	if !p.offer(c, message{"P", "", m.text}) {
		return false
	}
	p.ifSent(c, func(number uint64) {
		c.catalog.Parse(number, []byte(m.name), st)
		s.sent[len(s.sent)-1].name = string(s.held.Parse(number, st).AppendName(nil))
	})
	return true
}

// prepare makes a server have a copy and returns its name; false: wait.
func (p *pooler) prepare(c *pooledClient, st *Statement) (name string, ok bool) {
	s := c.server
	st = c.cache.Under(Environment{}, st)
	copied, since := s.held.Find(st)
	if !c.relies(since) {
		return "", false
	}
	if copied != nil {
		s.held.Use(copied, s.tracker.Sent()+1)
		return string(copied.AppendName(nil)), true
	}
	switch s.tracker.Prepare() {
	case protocol.Forward, protocol.ForwardFlush:
		copied = s.held.Parse(s.tracker.Sent(), st)
		s.held.Use(copied, s.tracker.Sent()+1)
		name = string(copied.AppendName(nil))
		s.sent = append(s.sent, message{"P", name, string(st.Text())})
		return name, true
	case protocol.Drop:
		return "", true
	}
	return "", false
}

func (p *pooler) forwardUse(c *pooledClient, m message) bool {
	s := c.server
	f := c.catalog.Lookup([]byte(m.name))
	if !c.relies(f.Since) {
		return false
	}
	name := string(AppendName(nil, Missing))
	if f.Statement != nil {
		unnamed, since := s.held.Unnamed()
		if m.name == "" && unnamed == f.Statement && c.relies(since) {
			name = ""
		} else if id, ok := p.prepare(c, f.Statement); ok {
			name = id
		} else {
			return false
		}
	}
	if !p.offer(c, message{m.typ, name, ""}) {
		return false
	}
	if m.typ == "B" && offered {
		c.portal = nil
		if f.Statement != nil {
			text := string(f.Statement.Text())
			c.portal = &text
		}
	}
	return true
}

func (p *pooler) forwardClose(c *pooledClient, m message) bool {
	s := c.server
	if s.tracker.MayAnswer('C') {
		c.catalog.Close(p.answerHere(c, 'C', answer{'3', ""}), []byte(m.name))
		c.catalog.Settle(&s.tracker)
		return true
	}
	name := ""
	if m.name != "" {
		name = string(AppendName(nil, Missing))
	}
	sent := p.offer(c, message{"C", name, ""})
	if sent {
		p.ifSent(c, func(number uint64) {
			c.catalog.Close(number, []byte(m.name))
			if m.name == "" {
				s.held.CloseUnnamed(number)
			}
		})
	}
	return sent
}

func (p *pooler) forwardQuery(c *pooledClient, m message) bool {
	s := c.server
	client, dealloc := strings.CutPrefix(m.text, "deallocate ")
	dealloc = dealloc && !strings.HasPrefix(client, "all")
	var taken *Copy
	if dealloc {
		f := c.catalog.Lookup([]byte(client))
		if !c.relies(f.Since) {
			return false
		}
		name := string(AppendName(nil, Missing))
		// A Parse of ours that failed would take the Query with it, which has no
		// Sync: it goes before only where it cannot fail. In a failed block the
		// Query fails whatever it names.
		if s.tracker.Owed() > 0 {
			return false
		}
		if f.Statement != nil && s.tracker.MayAnswer('P') {
			id, ok := p.prepare(c, f.Statement)
			if !ok {
				return false
			}
			name = id
			taken, _ = s.held.Find(f.Statement)
		}
		m.text = "deallocate \"" + name + "\""
	}
	if !p.offer(c, m) {
		return false
	}
	p.ifSent(c, func(number uint64) {
		c.catalog.Query(number)
		s.held.Query(number)
		if strings.Contains(m.text, "deallocate all") || clears(m.text) {
			c.catalog.Clear(number)
			s.held.Clear(number)
		}
		if taken != nil {
			c.catalog.Close(number, []byte(client))
			s.held.Deallocate(number, taken)
		}
	})
	return true
}

// serve makes a server take one message and passes its answers on.
func (p *pooler) serve(s *pooledServer) bool {
	if len(s.sent) == 0 {
		return false
	}
	m := s.sent[0]
	s.sent = s.sent[1:]
	for _, a := range s.pg.run(m) {
		var status byte
		var code []byte
		switch a.typ {
		case 'Z':
			status = a.text[0]
		case 'E':
			code = []byte(a.text)
		}
		head := s.tracker.Done() + 1
		v, err := s.tracker.Receive(a.typ, status, code)
		if err != nil {
			p.t.Fatalf("%v: %v", a, err)
		}
		c := s.client
		if a.typ == 'C' && strings.HasSuffix(a.text, " ALL") && m.typ == "Q" {
			s.held.Step(head)
			if c != nil && !v.Swallow {
				c.catalog.Step(head)
			}
		}
		s.held.Settle(&s.tracker, code)
		if c != nil {
			c.catalog.Settle(&s.tracker)
			if !v.Swallow {
				c.got = append(c.got, a.String())
			}
			p.giveLocal(c)
		}
	}
	p.part(s)
	return true
}
