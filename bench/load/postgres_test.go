package load

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// TestAgainstPostgreSQL runs a little of everything, over TCP and over a Unix socket.
func TestAgainstPostgreSQL(t *testing.T) {
	pg := pgtest.Shared(t)
	pg.Exec(t, "create table if not exists load_input (n int, t text)")
	for network, address := range map[string]string{"tcp": pg.Addr(), "unix": pg.SocketPath()} {
		t.Run(network, func(t *testing.T) {
			s := Server{Network: network, Address: address, User: "postgres", Database: "postgres", Parameters: []string{"DateStyle", "ISO"}}
			t.Run("loops", func(t *testing.T) { loopsAgainst(t, s) })
			t.Run("clients", func(t *testing.T) { clientsAgainst(t, s) })
			t.Run("streams", func(t *testing.T) { streamsAgainst(t, s) })
		})
	}
}

func loopsAgainst(t *testing.T, s Server) {
	ctx := context.Background()
	g := dial(t, s, Class{Application: "good", Query: "select 1", Sessions: 3}, Class{Application: "bad", Query: "select 1/0", Sessions: 2})
	all, err := g.Offer(ctx, 1, Offer{Rate: 500, Span: 100 * time.Millisecond}, Offer{Rate: 100, Span: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	good, bad := all[0], all[1]
	if good.Served.Count() == 0 || good.Failed != 0 || bad.Failed == 0 || len(bad.Codes) != 1 || bad.Codes[0].SQLState != "22012" {
		t.Errorf("good %s, bad %s", summary(good), summary(bad))
	}
	sleepers := dial(t, s, Class{Query: "select pg_sleep(0.002)", Sessions: 8})
	capacity, err := Capacity(ctx, sleepers, 2)
	if err != nil {
		t.Fatal(err)
	}
	peak, err := Sweep(ctx, sleepers, 1, capacity, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	over, err := peak.Overload(ctx, sleepers, 1, 1.5, 20*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	if capacity <= 0 || capacity > 1000 || peak.Service < 2*time.Millisecond || peak.Part(over) <= 0 || peak.Bound(over, 8) <= peak.Service {
		t.Errorf("capacity %v, peak %+v, overload %s", capacity, peak, summary(over))
	}
}

func clientsAgainst(t *testing.T, s Server) {
	ctx := context.Background()
	idle, err := NewIdle(s, "idle", "select 1")
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if err := idle.Grow(ctx, 5); err != nil {
		t.Fatal(err)
	}
	storm, err := Storm{Clients: 10, Query: "select 1", Limit: time.Minute}.Run(ctx, s)
	if err != nil || storm.Answered != 10 {
		t.Errorf("storm %+v, %v", counts(storm), err)
	}
	churn, err := Churn{Clients: 2, Logins: 10, Query: "select pg_sleep(0)", Queries: 2, Abandon: true}.Run(ctx, s)
	if err != nil || churn.Answered != 10 {
		t.Errorf("churn %+v, %v", counts(churn), err)
	}
	if n, err := idle.Alive(); n != 5 || err != nil {
		t.Errorf("%d of 5 idle clients are alive, %v", n, err)
	}
}

func streamsAgainst(t *testing.T, s Server) {
	ctx := context.Background()
	const series = "select repeat('x', 1000) from generate_series(1, 200)"
	for query, rate := range map[string]int{series: 0, series + " -- slowly": 1 << 20, "copy (" + series + ") to stdout": 0} {
		got, err := Stream{Sessions: 2, Query: query, Requests: 2, Rate: rate}.Run(ctx, s)
		if err != nil || got.Served != 4 || got.Rows != 800 {
			t.Errorf("%s: %+v, %v", query, figures(got), err)
		}
	}
	input := []byte(strings.Repeat("1\tabc\n", 1000))
	got, err := Stream{Sessions: 2, Query: "copy load_input from stdin where false", Requests: 2, Input: input, InputBytes: 1 << 20}.Run(ctx, s)
	if err != nil || got.Served != 4 || got.Sent < 4<<20 {
		t.Errorf("COPY FROM: %+v, %v", figures(got), err)
	}
	got, err = Stream{Sessions: 1, Query: "copy load_input from stdin", Requests: 1, Input: []byte("x\ty\n"), InputBytes: 1 << 20}.Run(ctx, s)
	if err != nil || got.Failed != 1 || got.Codes[0].SQLState != "22P02" {
		t.Errorf("COPY of no numbers: %+v, %v", figures(got), err)
	}
}
