// Command drivers is `make drivers`: real client libraries through pg-kinetic in transaction mode. Each has a folder with a
// small program that prints one line per capability; each program runs twice, alone and beside four pgbench clients in tight
// loops on the same pool of three backends. Packages come through the ordinary package clients into a cache folder; a driver
// whose packages cannot be had is skipped by name, one that does not work fails the run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// contenderProtocol is pgbench's -M.
const contenderProtocol = "prepared"

// setup is run before each program: what the scenarios find in the database.
const setup = `
DROP SCHEMA IF EXISTS tenant, bench CASCADE;
DROP TABLE IF EXISTS public.place, public.items;
CREATE SCHEMA tenant;
CREATE SCHEMA bench;
CREATE TABLE public.place(name text);
CREATE TABLE tenant.place(name text);
CREATE TABLE bench.place(name text);
INSERT INTO public.place VALUES ('public');
INSERT INTO tenant.place VALUES ('tenant');
INSERT INTO bench.place VALUES ('bench');
CREATE TABLE public.items(id int PRIMARY KEY, body text);
`

type settings struct {
	only    string
	binary  string
	table   string
	target  string
	verbose bool
	logins  *logins
}

func main() {
	var o settings
	flag.StringVar(&o.only, "only", "", "drivers to run, by folder, with commas between; all without")
	flag.StringVar(&o.binary, "pg-kinetic", "", "path of the binary")
	flag.StringVar(&o.table, "table", "", "file whose table is to be written from this run")
	flag.StringVar(&o.target, "target", "pg-kinetic", "what the drivers connect to: pg-kinetic, pgbouncer or direct")
	flag.BoolVar(&o.verbose, "v", false, "show the pooler's log after a failure")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "make drivers:", err)
		os.Exit(1)
	}
}

func run(o settings) error {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	root, err := pooler.Root()
	if err != nil {
		return err
	}
	cache, err := cacheDir(root)
	if err != nil {
		return err
	}
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	server, err := pgtest.New()
	if err != nil {
		return err
	}
	defer server.Remove()
	dir, err := os.MkdirTemp(server.SocketDir(), "logins-") // goes with the server's directory
	if err != nil {
		return err
	}
	if o.logins, err = makeLogins(dir); err != nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() { // the server's watchdog ends what was started, the pooler included
		fmt.Fprintln(os.Stderr, <-signals)
		os.Exit(1)
	}()

	var rows []row
	var wrong []error
	for _, d := range chosen {
		added, err := runDriver(d, o, root, cache, server)
		rows = append(rows, added...)
		if err != nil {
			wrong = append(wrong, err)
		}
	}
	if o.table != "" && o.only == "" {
		wrong = append(wrong, rewrite(o.table, rows))
	}
	return errors.Join(append(wrong, summary(rows))...)
}

func choose(only string) ([]*driver, error) {
	var chosen []*driver
	names := strings.FieldsFunc(only, func(r rune) bool { return r == ',' || r == ' ' })
	for i := range drivers {
		if d := &drivers[i]; len(names) == 0 || slices.Contains(names, d.name) {
			chosen = append(chosen, d)
		}
	}
	if len(names) > 0 && len(chosen) != len(names) {
		var known []string
		for _, d := range drivers {
			known = append(known, d.name)
		}
		return nil, fmt.Errorf("%q: the drivers are %s", only, strings.Join(known, ", "))
	}
	return chosen, nil
}

// runDriver gives a row per variant. The error is ours: a program that does not build, a pooler that does not start.
func runDriver(d *driver, o settings, root, cache string, server *pgtest.Server) ([]row, error) {
	started := time.Now()
	k, err := ready(d, root, cache)
	var missing *skipped
	if errors.As(err, &missing) {
		fmt.Printf("%s: skipped: %v\n", d.name, err)
		return []row{{driver: d, skipped: missing.missing}}, nil
	}
	if err != nil {
		return nil, err
	}
	if took := time.Since(started); took > time.Second {
		fmt.Printf("%s: packages and program ready after %.0f s\n", d.name, took.Seconds())
	}
	variants := d.variants
	if len(variants) == 0 {
		variants = []string{""}
	}
	var rows []row
	for _, variant := range variants {
		r := row{driver: d, variant: variant}
		if r.alone, err = perform(k, variant, o, server, false); err != nil {
			return rows, fmt.Errorf("%s %s: %w", d.name, variant, err)
		}
		if r.contended, err = perform(k, variant, o, server, true); err != nil {
			return rows, fmt.Errorf("%s %s, contended: %w", d.name, variant, err)
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// perform is one run of a program with a pooler of its own.
func perform(k *kit, variant string, o settings, server *pgtest.Server, contended bool) (*outcome, error) {
	if _, err := server.Query(setup + loginRoles); err != nil {
		return nil, err
	}
	p, err := pooler.New(server, pooler.Options{
		Target: pooler.Target(o.target), Binary: o.binary, PoolSize: backends,
		Flags: append(o.logins.flags(), "--capacity.checkout-timeout-ms=30000"),
	})
	if err != nil {
		return nil, err
	}
	how := "alone"
	var others *contention
	if contended {
		how = "contended"
		if others, err = contend(server, p); err != nil {
			return nil, errors.Join(err, p.Stop())
		}
	}
	result := runProgram(k, variant, p, o.logins)
	if contended {
		if err := others.end(); err != nil {
			result.results["program"] = err.Error()
		}
		if p.Target != pooler.Direct && result.backends < 2 {
			result.results[moved] = fmt.Sprintf("%d backend served the session", result.backends)
		}
	}
	failures := result.failures(k.driver)
	if o.verbose && len(failures) > 0 {
		fmt.Fprintf(os.Stderr, "the pooler's log ends:\n%s\n", p.LogTail(40))
	}
	if err := p.Stop(); err != nil {
		failures = append(failures, err.Error())
		result.results["program"] = err.Error()
	}
	fmt.Printf("%-16s %-26s %-10s %4.1f s, %d backends, %d ok", k.name, variant, how, result.took.Seconds(), result.backends, len(k.expected())-len(failures))
	for _, f := range failures {
		fmt.Printf("\n    FAIL %s", f)
	}
	fmt.Println()
	return result, nil
}

// summary prints the closing line, by drivers.
func summary(rows []row) error {
	bad := map[string]bool{}
	var order, without []string
	for _, r := range rows {
		if r.skipped != "" {
			without = append(without, r.driver.name)
			continue
		}
		if !slices.Contains(order, r.driver.name) {
			order = append(order, r.driver.name)
		}
		if len(r.alone.failures(r.driver))+len(r.contended.failures(r.driver)) > 0 {
			bad[r.driver.name] = true
		}
	}
	if len(without) > 0 {
		fmt.Println("skipped:", strings.Join(without, ", "))
	}
	fmt.Printf("drivers: %d passed, %d failed, %d skipped\n", len(order)-len(bad), len(bad), len(without))
	if len(bad) > 0 {
		return fmt.Errorf("%d of %d drivers do not work", len(bad), len(order))
	}
	return nil
}
