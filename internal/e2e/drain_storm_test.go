package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestDrainStorm ends a process that has 200 busy clients and many idle ones, in each way that cuts nothing, behind a reload
// and a suspension. One transaction stays open until all that is to be seen of a drain has been seen.
func TestDrainStorm(t *testing.T) {
	onlyKinetic(t)
	const idlers = 2400 // 1.2 s on each of two loops
	s := pgtest.Start(t)
	s.Exec(t, "CREATE DATABASE bench")
	for i, name := range []string{"SIGTERM", "SHUTDOWN WAIT_FOR_CLIENTS", "SHUTDOWN WAIT_FOR_SERVERS"} {
		t.Run(name, func(t *testing.T) {
			o := operate(t, s, &operated{mode: "transaction", protocol: "simple", loops: 2, clients: 200, size: 20})
			block := login(t, o.p, "database", "bench")
			ask(t, block, "BEGIN")
			idle := o.crowd(idlers, nil)
			busy := o.crowd(o.clients, []string{"BEGIN", "SELECT 1", "SELECT 2", "COMMIT"})
			o.reloadByCommand()
			o.suspend()
			o.settle(0)

			began := time.Now()
			if i == 0 {
				signal(t, o.p, syscall.SIGTERM)
			} else {
				o.do(name)
			}
			o.drains()
			idle.Wait()
			if d := time.Since(began); d < time.Second || d > 15*time.Second {
				t.Errorf("%d idle clients on two loops were sent away in %v", idlers, d)
			}
			busy.Wait()
			o.drains()
			if got := ask(t, block, "SELECT 'still'"); got != "still" {
				t.Errorf("in its block the client got %q", got)
			}
			if i == 0 {
				until(t, 10*time.Second, "the log tells how far it is", func() bool {
					return strings.Contains(o.p.Log(), "msg=draining clients=1 in_transactions=1 ")
				})
			}
			ask(t, block, "COMMIT")
			if got := ends(t, block); got != "FATAL 57P01" {
				t.Errorf("after its block the client ended with %q, want FATAL 57P01", got)
			}
			exits(t, o.p, 0)
			if log := o.p.Log(); !strings.Contains(log, "transactions_cut=0") {
				t.Errorf("the log ends:\n%s", o.p.LogTail(10))
			}
			until(t, 5*time.Second, "no session with PostgreSQL", func() bool { return s.Backends(t) == 0 })
		})
	}
}

// crowd logs clients in who repeat a transaction, or do nothing, until they are told to go, which must be between two
// transactions. It returns when each has done so once.
func (o *operations) crowd(clients int, transaction []string) *sync.WaitGroup {
	o.t.Helper()
	var all, begun sync.WaitGroup
	few := make(chan struct{}, 16)
	for i := range clients {
		begun.Add(1)
		all.Go(func() {
			few <- struct{}{}
			c, err := pgwire.Open("unix", o.p.SocketPath())
			if err == nil {
				_, err = c.Login(0, "user", "postgres", "database", "bench")
			}
			<-few
			if err != nil {
				o.t.Errorf("client %d: %v", i, err)
				begun.Done()
				return
			}
			defer c.Close()
			if len(transaction) == 0 {
				begun.Done()
				c.Timeout = time.Minute
				if m, err := c.Read(); err != nil || m.Type != 'E' || pgwire.ErrorOf(m).Code() != "57P01" {
					o.t.Errorf("idle client %d got %s, %v", i, m, err)
				}
				return
			}
			for n := 0; ; n++ {
				if n == len(transaction) {
					begun.Done()
				}
				at := n % len(transaction)
				if _, err := c.Exec(transaction[at]); err != nil {
					if at > 0 || code(err) != "57P01" || n < len(transaction) {
						o.t.Errorf("client %d: %s: %v", i, transaction[at], err)
					}
					return
				}
			}
		})
	}
	begun.Wait()
	if o.t.Failed() {
		o.t.FailNow()
	}
	return &all
}

// drains checks what whoever comes is told, and that operators are served.
func (o *operations) drains() {
	o.t.Helper()
	until(o.t, 10*time.Second, "/readyz tells the drain", func() bool {
		status, text := o.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(text, "draining")
	})
	if status, _ := o.get("/livez"); status != http.StatusOK {
		o.t.Errorf("/livez: %d", status)
	}
	c := pgwire.Dial(o.t, "tcp", o.p.Addr())
	defer c.Close()
	if _, err := c.Login(0, "user", "postgres", "database", "bench"); code(err) != "57P01" {
		o.t.Errorf("a new client got %v, want 57P01", err)
	}
	operator := login(o.t, o.p, "database", "pg_kinetic")
	defer operator.Close()
	if rows, err := operator.Exec("SHOW STATE"); err != nil || fmt.Sprint(rows) == "[]" {
		o.t.Errorf("SHOW STATE: %v, %v", rows, err)
	}
}
