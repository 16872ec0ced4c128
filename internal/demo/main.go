// Command demo is what `make run` runs: a throw-away PostgreSQL, pg-kinetic in front of it, and the psql line to try it.
// Ctrl-C stops both and leaves nothing behind; so does a kill of this process, by the server's watchdog.
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// usualPort and usualHTTP are taken when they are free, so that the printed lines are those of the documentation.
const (
	usualPort = 6432
	usualHTTP = 6433
)

// demoRoutes is the rule by which the documentation shows a refusal.
const demoRoutes = `PG_KINETIC_ROUTES=[{"name": "demo", "match": {"application_name": "demo"}, "max_route_in_flight": 8, "max_route_waiters": 4}]`

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: demo PATH-OF-PG-KINETIC")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

func run(binary string) error {
	// Before anything is started: a signal that comes early must find somebody who cleans up.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)

	fmt.Println("starting a throw-away PostgreSQL ...")
	server, err := pgtest.New()
	if err != nil {
		return err
	}
	defer server.Remove()
	http := fmt.Sprintf("127.0.0.1:%d", port(usualHTTP))
	p, err := pooler.New(server, pooler.Options{
		Target: pooler.Kinetic, Port: port(usualPort), HTTP: http, Binary: binary, Env: []string{demoRoutes},
	})
	if err != nil {
		return err
	}
	defer func() {
		if err := p.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "pg-kinetic:", err)
		}
	}()
	fmt.Printf(`
PostgreSQL   127.0.0.1:%d (data in %s)
pg-kinetic   127.0.0.1:%d, transaction mode, 20 backends per pool

  %[4]s -h 127.0.0.1 -p %[3]d -U postgres postgres      a session
  %[4]s -h 127.0.0.1 -p %[3]d -U postgres pg_kinetic    the console: show help;
  curl http://%[5]s/metrics

Ctrl-C stops both and removes everything.
`, server.Port, server.SocketDir(), p.Port, psql(server), http)

	select {
	case sig := <-signals:
		fmt.Printf("\n%v: stopping ...\n", sig)
		return nil
	case <-p.Ended():
		return fmt.Errorf("pg-kinetic ended by itself; its log ends:\n%s", p.LogTail(20))
	}
}

// port is the usual port, or a free one when somebody listens there.
func port(usual int) int {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", usual))
	if err != nil {
		fmt.Printf("port %d is taken: using another one\n", usual)
		free, err := pgtest.FreePort()
		if err != nil {
			return usual // its start tells what is wrong
		}
		return free
	}
	_ = l.Close() // nobody was there
	return usual
}

// psql is the name to type: with its directory where the shell would not find it.
func psql(server *pgtest.Server) string {
	if _, err := exec.LookPath("psql"); err == nil {
		return "psql"
	}
	return filepath.Join(server.Bin, "psql")
}
