// Package report is how the Go programs among the drivers tell their results: one line per capability on standard output,
// `ok NAME` or `FAIL NAME: why`, before them `version V`, and `backends N` when a scenario counted them. The programs in
// other languages print the same lines.
package report

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// limit bounds one scenario, so that one that hangs is named.
const limit = 40 * time.Second

// Scenario is one capability and what shows it.
type Scenario struct {
	Name string
	Run  func(ctx context.Context) error
}

// Run runs the scenarios in order, prints a line for each, and returns the exit status of the program.
func Run(version string, scenarios []Scenario) int {
	fmt.Println("version", version)
	status := 0
	for _, s := range scenarios {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		err := s.Run(ctx)
		cancel()
		if err == nil {
			fmt.Println("ok", s.Name)
			continue
		}
		status = 1
		fmt.Printf("FAIL %s: %s\n", s.Name, strings.Join(strings.Fields(err.Error()), " "))
	}
	return status
}

// Backends reports how many backends served one session.
func Backends(pids map[int]bool) { fmt.Println("backends", len(pids)) }

// URL is the pooler's, of the form postgres://user@host:port/database.
func URL() string { return os.Getenv("DRIVERS_URL") }

// ConsoleURL is that of the console.
func ConsoleURL() string { return strings.TrimSuffix(URL(), "/postgres") + "/pg_kinetic" }

// Addr is the pooler's host:port.
func Addr() string { return os.Getenv("DRIVERS_HOST") + ":" + os.Getenv("DRIVERS_PORT") }

// Variant is the argument of the program: the way in which it uses its driver.
func Variant() string {
	if len(os.Args) < 2 {
		return ""
	}
	return os.Args[1]
}
