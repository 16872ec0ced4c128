package difftest

import (
	"sync"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// TestSameUnderContention: each dialogue once more while others wait for the only backend all the time, so that each of its
// Sync groups outside a block is a request of its own, which waits in its turn. The answers must be PostgreSQL's.
func TestSameUnderContention(t *testing.T) {
	if pooler.Chosen() != pooler.Kinetic {
		t.Skip("it takes settings of pg-kinetic's to have every group wait in the same queue")
	}
	s := database(t)
	su := connect(t, s)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{
		"--capacity.checkout-timeout-ms=20000", "--admission.route-key=database,user", "--server.loops=2",
	}})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 2 { // while one of them runs, the other one waits
		c := pgwire.Login(t, "tcp", p.Addr(), "user", User, "database", "postgres")
		all.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if rows, err := c.Exec("SELECT 'bystander'"); err != nil || rows[0][0] != "bystander" {
					t.Errorf("a bystander got %v, %v", rows, err)
					return
				}
			}
		})
	}
	for _, d := range load(t) {
		t.Run(d.Name, func(t *testing.T) {
			su.prepare(t, d)
			_, want, err := d.Run(s.Addr())
			if err != nil {
				t.Fatalf("with PostgreSQL itself: %v", err)
			}
			su.prepare(t, d)
			_, got, err := d.Run(p.Addr())
			if err != nil {
				t.Error(err)
			}
			compare(t, d, p, "transaction", want, got)
		})
	}
	close(stop)
	all.Wait()
	sessions(t, s, p)
}
