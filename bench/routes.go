package main

import (
	"encoding/json"
	"fmt"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// maxRoutes is the criterion: CPU per transaction with rules, in parts of that without.
const maxRoutes = 1.03

// manyRules are 20 rules with patterns; the last one matches pgbench, and its limits refuse nobody.
func manyRules() (string, error) {
	type match struct {
		Application []string `json:"application_name"`
		User        string   `json:"user"`
	}
	type entry struct {
		Name   string `json:"name"`
		Match  match  `json:"match"`
		Limit  int    `json:"max_route_in_flight"`
		Weight int    `json:"weight"`
	}
	var rules []entry
	for i := range 20 {
		e := entry{Name: fmt.Sprintf("rule-%d", i), Limit: 100, Weight: 1 + i%3}
		e.Match = match{Application: []string{fmt.Sprintf("*service-%d*", i), fmt.Sprintf("job-%d-*", i)}, User: "*"}
		if i == 19 {
			e.Match.Application = append(e.Match.Application, "pg*ch")
		}
		rules = append(rules, e)
	}
	text, err := json.Marshal(rules)
	return string(text), err
}

// measureRoutes compares pgbench's transactions through a pooler without rules and through one with many. The rounds
// alternate, and so does which pooler begins one.
func measureRoutes(server *pgtest.Server, rounds, seconds int) (bool, error) {
	rules, err := manyRules()
	if err != nil {
		return false, err
	}
	if err := makeTables(server); err != nil {
		return false, err
	}
	var poolers [2]*pooler.Pooler
	for i, env := range [][]string{nil, {"PG_KINETIC_ROUTES=" + rules}} {
		if poolers[i], err = startWith(server, pooler.Options{Env: env}); err != nil {
			return false, err
		}
		defer stop(poolers[i])
		if _, err := pgbench(server, poolers[i], 2); err != nil { // the pool is filled before the first round
			return false, err
		}
	}
	fmt.Fprintf(out, "routes: pgbench -S -M %s, %d clients, %d backends, %d s a round, CPU us/tx\n", *protocol, *clients,
		*backends, seconds)
	fmt.Fprintf(out, "%-6s %10s %10s %6s\n%s\n", "round", "no rules", "20 rules", "ratio", rule(35))
	var ratios []float64
	for i := range rounds {
		var cpu [2]float64
		for k := range cpu {
			which := (i + k) % 2
			r, err := pgbench(server, poolers[which], seconds)
			if err != nil {
				return false, err
			}
			cpu[which] = r.cpu
		}
		ratios = append(ratios, cpu[1]/cpu[0])
		fmt.Fprintf(out, "%-6d %10.2f %10.2f %6.3f\n", i+1, cpu[0], cpu[1], cpu[1]/cpu[0])
	}
	ratio := medianOf(ratios, func(v float64) float64 { return v })
	fmt.Fprintf(out, "%s\nCPU per transaction with 20 rules: %.3f of that without; criterion %.2f: %s\n\n", rule(35), ratio, maxRoutes,
		verdict(ratio <= maxRoutes))
	return ratio <= maxRoutes, nil
}
