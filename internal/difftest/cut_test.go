package difftest

import (
	"testing"

	"pgkinetic/internal/pooler"
)

// TestVanishingClients cuts each dialogue at every edge between messages and once inside each message: the client is gone,
// and the next client of the same (only) backend must find it as if nobody had been there, without a new login to
// PostgreSQL.
func TestVanishingClients(t *testing.T) {
	s := database(t)
	su := connect(t, s)
	p := pooler.Start(t, s, pooler.Options{PoolSize: 1, Flags: []string{"--capacity.checkout-timeout-ms=20000"}})
	clean := untouched(t, p.Addr()) // before any other client: TestSameAsPostgreSQL compares it with PostgreSQL's
	for _, d := range load(t) {
		t.Run(d.Name, func(t *testing.T) {
			su.prepare(t, d)
			backend := probe(t, p, clean, 1)
			for _, cut := range d.Cuts() {
				if err := d.RunCut(p.Addr(), cut); err != nil {
					t.Errorf("cut %+v: %v", cut, err)
				}
				su.prepare(t, d)
				next := probe(t, p, clean, 3)
				// The server itself ends a session that breaks the protocol.
				if next != backend && !d.Large(cut) && !d.Lenient && p.Target == pooler.Kinetic {
					t.Errorf("cut %+v cost a login: backend %s became %s", cut, backend, next)
				}
				backend = next
				if t.Failed() {
					t.Fatalf("after cut %+v", cut)
				}
			}
			probe(t, p, clean, 200)
			sessions(t, s, p)
		})
	}
}
