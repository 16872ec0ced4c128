package main

import (
	"fmt"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// maxRefusal is the criterion: the pooler's CPU for a refusal, in parts of that for a served `select 1`.
const maxRefusal = 0.6

// fullRules make a route that one client fills.
const fullRules = `[{"name": "full", "match": {"application_name": "full"}, "max_route_in_flight": 1, "max_route_waiters": 0}]`

// measureRefusals sends the same number of `select 1` over the same number of sessions to a route that serves them and to
// one that refuses them all, in turn.
func measureRefusals(server *pgtest.Server, rounds, requests int) (bool, error) {
	p, err := startWith(server, pooler.Options{
		Env:   []string{"PG_KINETIC_ROUTES=" + fullRules},
		Flags: []string{"--capacity.idle-transaction-timeout-ms=0"}, // of the client that fills it
	})
	if err != nil {
		return false, err
	}
	defer stop(p)
	served, err := newLoad(p, "served", "select 1", *clients)
	if err != nil {
		return false, err
	}
	defer served.close()
	refused, err := newLoad(p, "full", "select 1", *clients)
	if err != nil {
		return false, err
	}
	defer refused.close()
	holder, err := newLoad(p, "full", "begin", 1) // its permit is held until it goes
	if err != nil {
		return false, err
	}
	defer holder.close()
	if _, err := holder.closed(1, 1); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "refusals: %d x select 1 over %d sessions, served and refused\n%-6s %12s %12s %6s\n%s\n", requests, *clients,
		"round", "served us", "refused us", "ratio", rule(40))
	type costs struct{ served, refused float64 }
	var all []costs
	for i := range rounds + 1 {
		var c costs
		if c.served, err = cpuPerRequest(p, served, requests, 0); err != nil {
			return false, err
		}
		if c.refused, err = cpuPerRequest(p, refused, requests, requests); err != nil {
			return false, err
		}
		if i == 0 {
			continue // the pool is filled, buffers have their size
		}
		all = append(all, c)
		fmt.Fprintf(out, "%-6d %12.2f %12.2f %6.2f\n", i, c.served, c.refused, c.refused/c.served)
	}
	ratio := medianOf(all, func(c costs) float64 { return c.refused / c.served })
	fmt.Fprintf(out, "%s\nCPU of a refusal: %.2f of a served request's; criterion %.1f: %s\n\n", rule(40), ratio, maxRefusal,
		verdict(ratio <= maxRefusal))
	return ratio <= maxRefusal, nil
}

// cpuPerRequest runs requests of which so many must be refused, and gives the pooler's CPU for each, in µs.
func cpuPerRequest(p *pooler.Pooler, l *load, requests, refused int) (float64, error) {
	before, err := cpuSeconds(p.PID())
	if err != nil {
		return 0, err
	}
	t, err := l.closed(requests, len(l.sessions))
	if err != nil {
		return 0, err
	}
	after, err := cpuSeconds(p.PID())
	if err != nil {
		return 0, err
	}
	if len(t.refused) != refused {
		return 0, fmt.Errorf("%d of %d requests were refused, want %d", len(t.refused), requests, refused)
	}
	return (after - before) * 1e6 / float64(requests), nil
}
