package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"pgkinetic/internal/pgwire"
)

// pgbenches are runs of pgbench, one after the other, until end.
type pgbenches struct {
	stop chan struct{}
	all  sync.WaitGroup
}

// bench runs pgbench again and again: every third time with a new connection for each transaction. Each client has a thread
// of its own: pgbench connects and prepares in one call, and other clients of the thread would keep their backends meanwhile.
func (o *operations) bench(each time.Duration) *pgbenches {
	b := &pgbenches{stop: make(chan struct{})}
	calm := o.calm
	b.all.Go(func() {
		for n := 0; ; n++ {
			clients, where := fmt.Sprint(o.clients), []string{o.p.DSN("postgres", "bench")}
			if n%3 == 2 { // through the Unix socket: so many ports would not be free again in time
				clients, where = "10", []string{"-C", fmt.Sprintf("host=%s port=%d user=postgres dbname=bench", o.s.SocketDir(), o.p.Port)}
			}
			args := append([]string{
				"-n", "-c", clients, "-j", clients, "-M", o.protocol, "-b", "select-only@4", "-b", "simple-update@1",
				"-T", fmt.Sprint(int(each.Seconds())),
			}, where...)
			ctx, cancel := context.WithTimeout(o.t.Context(), each+2*time.Minute)
			out, err := exec.CommandContext(ctx, program(o.s, "pgbench"), args...).CombinedOutput()
			cancel()
			switch {
			case !calm:
				o.onlyLost(string(out))
			case err != nil || !strings.Contains(string(out), "number of failed transactions: 0 ") || strings.Contains(string(out), "aborted"):
				o.t.Errorf("pgbench %v: %v\n%s", args, err, out)
			}
			select {
			case <-b.stop:
				return
			default:
			}
			if o.t.Failed() {
				return
			}
		}
	})
	return b
}

func (b *pgbenches) end() {
	close(b.stop)
	b.all.Wait()
}

// What pgbench prints of a server's errors and of connections that do not come about, and what of these a restart causes.
var (
	errorLine = regexp.MustCompile(`(ERROR|FATAL|PANIC): |failed: |refused|timeout`)
	lostLine  = regexp.MustCompile(`terminating connection (due to|because of)|the database system is|server closed the connection unexpectedly|` +
		`prepared statement .* does not exist`) // pgbench goes on when a Parse has failed
)

func (o *operations) onlyLost(out string) {
	for line := range strings.Lines(out) {
		if errorLine.MatchString(line) && !lostLine.MatchString(line) {
			o.t.Errorf("pgbench: %s", line)
		}
	}
}

// ask starts clients who ask for nonces in bench; what they may be told is that PostgreSQL is away.
func (o *operations) ask(clients int) *crowd {
	w := &crowd{stop: make(chan struct{})}
	for i := range clients {
		w.all.Go(func() {
			var c *pgwire.Conn
			defer func() {
				if c != nil {
					c.Close()
				}
			}()
			for n := 0; !w.stopped(); n++ {
				var err error
				if c == nil {
					c, err = o.enter()
				}
				if err == nil {
					err = o.nonce(c, fmt.Sprintf("client %d query %d", i, n))
				}
				var told *pgwire.Error
				switch {
				case err == nil && (o.mode != "session" || n%50 > 0):
					w.answers.Add(1)
					continue
				case err == nil: // a session that stays would have PAUSE and WAIT_CLOSE wait for ever
					c.Close()
					c = nil
					continue
				case errors.As(err, &told) && lost(err):
					w.errors.Add(1)
					if c == nil || told.Fields['V'] != "FATAL" {
						continue
					}
				case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
					w.errors.Add(1)
				default:
					o.t.Errorf("client %d, query %d: %v", i, n, err)
					return
				}
				if o.mode != "session" { // outside of a block a session outlives its backend
					o.t.Errorf("client %d, query %d: the session has ended: %v", i, n, err)
					return
				}
				if c != nil {
					c.Close()
					c = nil
				}
			}
		})
	}
	return w
}

func (o *operations) enter() (*pgwire.Conn, error) {
	c, err := pgwire.Open("tcp", o.p.Addr())
	if err != nil {
		return nil, err
	}
	if _, err = c.Login(0, "user", "postgres", "database", "bench"); err == nil && o.protocol == "prepared" {
		if err = c.Send(pgwire.Parse("nonce", "SELECT $1::text"), pgwire.Sync()); err == nil {
			err = outcome(c, nil)
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// nonce asks for one.
func (o *operations) nonce(c *pgwire.Conn, nonce string) error {
	if o.protocol != "prepared" {
		return expect(c, nonce, "")
	}
	if err := c.Send(pgwire.Bind("", "nonce", []byte(nonce)), pgwire.Execute("", 0), pgwire.Sync()); err != nil {
		return err
	}
	var rows [][]string
	err := outcome(c, &rows)
	if err == nil && (len(rows) != 1 || rows[0][0] != nonce) {
		return &wrongAnswer{nonce, rows}
	}
	return err
}

// outcome reads up to ReadyForQuery.
func outcome(c *pgwire.Conn, rows *[][]string) error {
	all, err := c.ReadUntil('Z', 1)
	for _, m := range all {
		switch m.Type {
		case 'E':
			return pgwire.ErrorOf(m)
		case 'D':
			*rows = append(*rows, pgwire.Values(m))
		}
	}
	return err
}
