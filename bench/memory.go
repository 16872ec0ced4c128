package main

import (
	"fmt"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

// few is the number of clients of the process that the many are compared with.
const few = 100

// measureMemory reads the resident memory with few and then with many idle clients, each time a while after the last
// query and without asking the runtime to give memory back.
func measureMemory(server *pgtest.Server) (bool, error) {
	if err := raiseDescriptors(*idle); err != nil {
		return false, err
	}
	p, err := start(server, pooler.Kinetic)
	if err != nil {
		return false, err
	}
	defer stop(p)
	var open []*pgwire.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	fmt.Fprintf(out, "idle clients that ran a query, read %v after the last one\n", *settle)
	fmt.Fprintf(out, "%10s %14s\n%s\n", "clients", "resident KiB", rule(25))
	var kib []int
	for _, n := range []int{few, *idle} {
		for len(open) < n {
			c, err := pgwire.Open("tcp", p.Addr())
			if err != nil {
				return false, err
			}
			open = append(open, c)
			if _, err := c.Login(0, "user", "postgres", "database", "postgres"); err != nil {
				return false, err
			}
			if _, err := c.Exec("SELECT 1"); err != nil {
				return false, err
			}
		}
		time.Sleep(*settle)
		r, err := residentKiB(p.PID())
		if err != nil {
			return false, err
		}
		kib = append(kib, r)
		fmt.Fprintf(out, "%10d %14d\n", n, r)
	}
	each := (kib[1] - kib[0]) * 1024 / (*idle - few)
	fmt.Fprintf(out, "%s\nmemory per idle client: %d bytes; criterion %d: %s\n", rule(25), each, maxBytes, verdict(each <= maxBytes))
	return each <= maxBytes, nil
}
