package engine_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// negotiation decodes NegotiateProtocolVersion.
func negotiation(m pgwire.Message) (minor uint32, options []string) {
	minor = binary.BigEndian.Uint32(m.Body) & 0xffff
	if n := binary.BigEndian.Uint32(m.Body[4:]); n > 0 {
		options = strings.Split(strings.TrimRight(string(m.Body[8:]), "\x00"), "\x00")
	}
	return minor, options
}

// TestProtocolVersions: what each asks for, and that exactly one NegotiateProtocolVersion comes where one is due; the cancel
// key of each works.
func TestProtocolVersions(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	for _, c := range []struct {
		minor   uint16
		options []string
		told    bool
		toldMin uint32
		key     int
	}{
		{0, nil, false, 0, 4},
		{2, nil, false, 0, 24},
		{9, nil, true, 2, 24},
		{9999, nil, true, 2, 24},
		{0, []string{"_pq_.x"}, true, 0, 4},
		{2, []string{"_pq_.x", "_pq_.y"}, true, 2, 24},
		{9, []string{"_pq_.x"}, true, 2, 24},
	} {
		t.Run(fmt.Sprintf("3.%d %v", c.minor, c.options), func(t *testing.T) {
			t.Parallel()
			who := role(t, pg)
			params := []string{"user", who, "database", "postgres"}
			for _, o := range c.options {
				params = append(params, o, "1")
			}
			conn := pgwire.Dial(t, "tcp", address)
			all, err := conn.Login(c.minor, params...)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(typesOf(all), "v"); n > 1 || c.told != (n == 1) {
				t.Fatalf("%d NegotiateProtocolVersion: %s", n, pgwire.Transcript(all))
			}
			if c.told {
				if all[0].Type != 'v' {
					t.Errorf("first came %v", all[0])
				}
				if minor, options := negotiation(all[0]); minor != c.toldMin || fmt.Sprint(options) != fmt.Sprint(c.options) {
					t.Errorf("told 3.%d %v", minor, options)
				}
			}
			if len(conn.Key) != c.key {
				t.Errorf("a key of %d bytes, want %d", len(conn.Key), c.key)
			}
			send(t, conn, pgwire.Query("select pg_sleep(60)"))
			running(t, pg, who, 1)
			if err := pgwire.Cancel("tcp", address, conn.PID, conn.Key); err != nil {
				t.Fatal(err)
			}
			all, err = conn.ReadUntil('Z', 1)
			if err != nil || len(all) < 2 || all[len(all)-2].Type != 'E' {
				t.Fatalf("after the cancel: %s, %v", pgwire.Transcript(all), err)
			}
			refused(t, pgwire.ErrorOf(all[len(all)-2]), "ERROR", "57014")
			usable(t, conn)
		})
	}
}

// TestEncryptionRequests: each is answered N, in any order, and the login goes on on the same socket.
func TestEncryptionRequests(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	for name, requests := range map[string][][]byte{
		"SSL":      {pgwire.SSLRequest()},
		"GSS":      {pgwire.GSSENCRequest()},
		"SSL, GSS": {pgwire.SSLRequest(), pgwire.GSSENCRequest()},
		"GSS, SSL": {pgwire.GSSENCRequest(), pgwire.SSLRequest()},
	} {
		c := pgwire.Dial(t, "tcp", address)
		for _, r := range requests {
			send(t, c, r)
			if b, err := c.ReadByte(); err != nil || b != 'N' {
				t.Fatalf("%s: answered %q, %v", name, b, err)
			}
		}
		if _, err := c.Login(0, "user", "postgres"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		usable(t, c)
	}
}

// TestStuffedBytes: what was sent before the answer to an encryption request is not taken as sent after it.
func TestStuffedBytes(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	for _, request := range [][]byte{pgwire.SSLRequest(), pgwire.GSSENCRequest()} {
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, request, pgwire.Startup(0, "user", "postgres"))
		ended(t, c, "08P01")
	}
	c := pgwire.Dial(t, "tcp", address)
	send(t, c, pgwire.SSLRequest())
	if _, err := c.ReadByte(); err != nil {
		t.Fatal(err)
	}
	send(t, c, pgwire.SSLRequest()) // a second time
	ended(t, c, "08P01")
}

// TestRefusedStartups: what a startup packet is refused for.
func TestRefusedStartups(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := startYAML(t, fmt.Sprintf("databases: [{name: known, hosts: [%q], dbname: postgres}]\n", pg.Addr()))
	for name, c := range map[string]struct {
		bytes []byte
		code  string
	}{
		"unknown database":     {pgwire.Startup(0, "user", "postgres", "database", "unknown"), "3D000"},
		"no user":              {pgwire.Startup(0, "database", "known"), "28000"},
		"long user":            {pgwire.Startup(0, "user", strings.Repeat("x", 64), "database", "known"), "28000"},
		"long database":        {pgwire.Startup(0, "user", "postgres", "database", strings.Repeat("x", 64)), "3D000"},
		"empty user":           {pgwire.Startup(0, "user", "", "database", "known"), "28000"},
		"replication":          {pgwire.Startup(0, "user", "postgres", "database", "known", "replication", "true"), "0A000"},
		"logical replication":  {pgwire.Startup(0, "user", "postgres", "database", "known", "replication", "database"), "0A000"},
		"protocol 2":           {[]byte{0, 0, 0, 8, 0, 2, 0, 0}, "0A000"},
		"protocol 4":           {[]byte{0, 0, 0, 8, 0, 4, 0, 0}, "0A000"},
		"junk":                 {[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), "08P01"},
		"TLS ClientHello":      {append([]byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}, make([]byte, 200)...), "08P01"},
		"absurd length":        {[]byte{0x7f, 0xff, 0xff, 0xff, 0, 3, 0, 0}, "08P01"},
		"length below header":  {[]byte{0, 0, 0, 4, 0, 3, 0, 0}, "08P01"},
		"no terminator":        {[]byte{0, 0, 0, 13, 0, 3, 0, 0, 'u', 's', 'e', 'r', 0}, "08P01"},
		"message before login": {pgwire.Query("select 1"), "08P01"},
	} {
		conn := pgwire.Dial(t, "tcp", address)
		send(t, conn, c.bytes)
		all, err := conn.ReadAll()
		if err != nil || len(all) != 1 || all[0].Type != 'E' {
			t.Errorf("%s: got %s, %v", name, pgwire.Transcript(all), err)
			continue
		}
		refused(t, pgwire.ErrorOf(all[0]), "FATAL", c.code)
	}
	until(t, "all gone", func() bool { return e.Totals().Clients == 0 })
}

// TestReplicationOff: a false replication parameter asks for an ordinary session.
func TestReplicationOff(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	usable(t, login(t, address, "replication", "false"))
}

// TestPartialStartups: half a cancel packet, half a startup packet, a startup packet byte by byte.
func TestPartialStartups(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t))
	for _, bytes := range [][]byte{pgwire.CancelRequest(1, []byte{1, 2, 3, 4})[:8], pgwire.Startup(0, "user", "postgres")[:9], nil} {
		c := pgwire.Dial(t, "tcp", address)
		if len(bytes) > 0 {
			send(t, c, bytes)
		}
		c.Close()
	}
	c := pgwire.Dial(t, "tcp", address)
	for _, b := range pgwire.Startup(2, "user", "postgres", "database", "postgres") {
		send(t, c, []byte{b})
	}
	if all, err := c.ReadUntil('Z', 1); err != nil {
		t.Fatal(pgwire.Transcript(all), err)
	}
	for _, b := range pgwire.Query("select 42") {
		send(t, c, []byte{b})
	}
	if got := types(t, c, 1); got != "TDCZI" {
		t.Errorf("got %s", got)
	}
	until(t, "the others gone", func() bool { return e.Totals().Clients == 1 })
}

// TestViolations: broken messages of a session, idle and inside a block; never an allocation of the declared length.
func TestViolations(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1")
	for _, before := range []string{"select 1", "begin"} {
		for name, bytes := range map[string][]byte{
			"absurd length":       {'Q', 0xff, 0xff, 0xff, 0xff},
			"length below header": {'Q', 0, 0, 0, 3},
			"no such message":     pgwire.Raw('!', nil),
			"password":            pgwire.Raw('p', []byte("secret\x00")),
			"long Sync":           pgwire.Raw('S', make([]byte, 100000)),
		} {
			c := login(t, address)
			exec(t, c, before)
			send(t, c, bytes)
			all, err := c.ReadAll()
			if err != nil || len(all) == 0 || all[len(all)-1].Type != 'E' {
				t.Errorf("%s after %s: got %s, %v", name, before, pgwire.Transcript(all), err)
				continue
			}
			if e := pgwire.ErrorOf(all[len(all)-1]); e.Code() != "08P01" || e.Fields['V'] != "FATAL" {
				t.Errorf("%s after %s: %v", name, before, e)
			}
		}
	}
	usable(t, login(t, address))
}

// TestViolationBehindRequest: the answers before it are given first.
func TestViolationBehindRequest(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	c := login(t, address)
	send(t, c, pgwire.Query("select 1"), []byte{'Q', 0xff, 0xff, 0xff, 0xff})
	all, err := c.ReadAll()
	if err != nil || typesOf(all) != "TDCZIE" {
		t.Errorf("got %s, %v", typesOf(all), err)
	}
}

// TestMaxClients: of the process, of a database, of a user; one that leaves makes room.
func TestMaxClients(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	const few = 2
	for name, text := range map[string]string{
		"process":  "server: {max_clients: 2}\ndatabases: [{name: postgres, hosts: [%q]}]\n",
		"database": "databases: [{name: postgres, hosts: [%q], max_clients: 2}]\n",
		"user":     "databases: [{name: postgres, hosts: [%q]}]\nusers: [{name: postgres, max_clients: 2}]\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, address := startYAML(t, fmt.Sprintf(text, pg.Addr()))
			var all []*pgwire.Conn
			for range few {
				all = append(all, login(t, address))
			}
			_, err := tryLogin(t, address)
			if f := refused(t, err, "FATAL", "53300"); f.Fields['M'] != "sorry, too many clients already" {
				t.Errorf("message %q", f.Fields['M'])
			}
			send(t, all[0], pgwire.Query("select pg_sleep(60)"))
			if err := pgwire.Cancel("tcp", address, all[0].PID, all[0].Key); err != nil { // needs no client's place
				t.Error(err)
			}
			all[1].Close()
			until(t, "a place", func() bool { c, err := tryLogin(t, address); c.Close(); return err == nil })
			all[0].Reset()
		})
	}
}

// TestMaxPools: a login that would need one more pool is refused.
func TestMaxPools(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t), "--server.max-pools=1")
	login(t, address)
	c := pgwire.Dial(t, "tcp", address)
	_, err := c.Login(0, "user", "postgres", "database", "template1")
	if f := refused(t, err, "FATAL", "53300"); !strings.Contains(f.Fields['M'], "max_pools") {
		t.Errorf("message %q", f.Fields['M'])
	}
	usable(t, login(t, address))
}

// TestMaxUnauthenticated: beyond it a socket is refused unseen, while those that are there have had less than a second.
func TestMaxUnauthenticated(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.max-unauthenticated=2")
	silent := func() *pgwire.Conn {
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, pgwire.SSLRequest())
		return c
	}
	answered := func(c *pgwire.Conn) error {
		_, err := c.ReadByte()
		return err
	}
	for begin := time.Now(); ; begin = time.Now() {
		first, second, third := silent(), silent(), silent()
		if err := errors.Join(answered(first), answered(second)); err != nil {
			t.Fatal(err)
		}
		all, err := third.ReadAll()
		if time.Since(begin) < 900*time.Millisecond { // else the machine was too slow to tell
			if err != nil || len(all) != 0 {
				t.Errorf("the third got %v, %v", all, err)
			}
			if _, err := first.Login(0, "user", "postgres"); err != nil {
				t.Fatal(err)
			}
			login(t, address)
			break
		}
		first.Close()
		second.Close()
		third.Close()
		until(t, "the sockets are forgotten", func() bool { return limitRow(t, e, "max_unauthenticated", "").Current == 0 })
	}
}

// TestStrangersAreDisplaced: where as many as may have not proved who they are, the oldest goes for a newcomer, if it has
// had its second: nobody who logs in is kept out.
func TestStrangersAreDisplaced(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--server.max-unauthenticated=4", "--server.loops=1")
	var strangers []*pgwire.Conn
	for range 4 {
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, pgwire.SSLRequest())
		if _, err := c.ReadByte(); err != nil {
			t.Fatal(err)
		}
		strangers = append(strangers, c)
	}
	until(t, "all have had their second", func() bool {
		c := pgwire.Dial(t, "tcp", address)
		defer c.Close()
		_, err := c.Login(0, "user", "postgres")
		return err == nil
	})
	if all, err := strangers[0].ReadAll(); err != nil || len(all) != 0 {
		t.Errorf("the oldest got %v, %v", all, err)
	}
	for range 10 {
		usable(t, login(t, address))
	}
	if n := e.Totals().Closed["max_unauthenticated"]; n == 0 {
		t.Error("nobody was displaced")
	}
}

// TestDrain: idle and waiting clients at once, busy ones at the end of their transaction, new ones are told; nothing is cut.
func TestDrain(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1")
	who := role(t, pg)
	session := loginAs(t, address, "postgres", "session")
	usable(t, session)
	block, waiter, idle := holder(t, address), login(t, address), login(t, address)
	other := loginAs(t, address, who, "postgres")
	send(t, other, pgwire.Query("select pg_sleep(0.3)"))
	running(t, pg, who, 1)
	queue(t, e, waiter, "select 1")
	result := make(chan error)
	go func() { result <- e.Drain(patience, nil) }()
	for _, c := range []*pgwire.Conn{idle, waiter, session} {
		ended(t, c, "57P01")
	}
	_, err := tryLogin(t, address)
	refused(t, err, "FATAL", "57P01")
	all, err := other.ReadAll()
	if err != nil || typesOf(all) != "TDCZIE" || pgwire.ErrorOf(all[len(all)-1]).Code() != "57P01" {
		t.Errorf("the busy one got %s, %v", pgwire.Transcript(all), err)
	}
	exec(t, block, "select 1") // its block goes on
	send(t, block, pgwire.Query("commit"))
	if all, err = block.ReadAll(); err != nil || typesOf(all) != "CZIE" {
		t.Errorf("the block got %s, %v", pgwire.Transcript(all), err)
	}
	if err := <-result; err != nil {
		t.Errorf("drain: %v", err)
	}
}

// TestDrainDeadline: at the deadline open transactions are cut, and that is told.
func TestDrainDeadline(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t))
	c := holder(t, address)
	silent := pgwire.Dial(t, "tcp", address)
	send(t, silent, pgwire.SSLRequest())
	if _, err := silent.ReadByte(); err != nil {
		t.Fatal(err)
	}
	if err := e.Drain(200*time.Millisecond, nil); err == nil {
		t.Error("the cut transaction was not told")
	}
	ended(t, c, "57P01")
	ended(t, silent, "57P01")
}
