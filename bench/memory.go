package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
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
	if err := raiseDescriptors(); err != nil {
		return false, err
	}
	p, err := start(server, pooler.Kinetic)
	if err != nil {
		return false, err
	}
	defer func() {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
		}
	}()
	var open []*pgwire.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	fmt.Printf("idle clients that ran a query, read %v after the last one\n", *settle)
	fmt.Printf("%10s %14s\n%s\n", "clients", "resident KiB", rule(25))
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
		fmt.Printf("%10d %14d\n", n, r)
	}
	each := (kib[1] - kib[0]) * 1024 / (*idle - few)
	fmt.Printf("%s\nmemory per idle client: %d bytes; criterion %d: %s\n", rule(25), each, maxBytes, verdict(each <= maxBytes))
	return each <= maxBytes, nil
}

func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(value)[0])
		}
	}
	return 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
}

// raiseDescriptors makes room for the clients in this process.
func raiseDescriptors() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(*idle) + 100; limit.Cur < need {
		return fmt.Errorf("the limit of open files is %d, %d clients need %d", limit.Cur, *idle, need)
	}
	return nil
}
