package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// contenders is the number of pgbench clients; backends the size of the pool that they share with the program. There is
// always somebody waiting for the backend that the program gives back, so the program goes on with another one.
const (
	contenders = 4
	backends   = 3
)

// The contenders have settings of their own and check in each round that they still have them, and nobody else's.
const contenderScript = `\set n random(1, 1000000)
SELECT 1 / (name = 'bench' AND current_setting('TimeZone') = 'Pacific/Chatham' AND :n > 0)::int FROM place;
`

// contention is a running pgbench. It belongs to the run that started it.
type contention struct {
	cmd   *exec.Cmd
	out   bytes.Buffer
	ended chan error
}

func contend(s *pgtest.Server, p *pooler.Pooler) (*contention, error) {
	script := filepath.Join(s.SocketDir(), "contender.sql")
	if err := os.WriteFile(script, []byte(contenderScript), 0o644); err != nil {
		return nil, err
	}
	c := &contention{ended: make(chan error, 1)}
	c.cmd = exec.Command(filepath.Join(s.Bin, "pgbench"), "-n", "-M", contenderProtocol, "-c", fmt.Sprint(contenders), "-T", "3600", "-f", script,
		p.DSN("postgres", "postgres"))
	c.cmd.Env = append(os.Environ(), "PGOPTIONS=-c search_path=bench -c TimeZone=Pacific/Chatham")
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.out
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for us: we end it
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { c.ended <- c.cmd.Wait() }()
	if err := c.busy(s); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

// busy returns when the contenders have used each backend of the pool.
func (c *contention) busy(s *pgtest.Server) error {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(20 * time.Second)
	for {
		rows, err := s.Query("SELECT count(*) >= " + fmt.Sprint(backends) + " FROM pg_stat_activity WHERE query LIKE '%Pacific/Chatham%' AND pid <> pg_backend_pid()")
		if err != nil {
			return err
		}
		if rows[0][0] == "t" {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return errors.New("pgbench does not use the backends of the pool")
		}
	}
}

// end stops pgbench and tells whether its clients were served well all the time.
func (c *contention) end() error {
	select {
	case err := <-c.ended:
		return fmt.Errorf("pgbench ended before the program did (%v): %s", err, lastLines(c.out.String(), 5))
	default:
	}
	err := c.cmd.Process.Kill()
	<-c.ended
	if err != nil {
		return err
	}
	if bytes.Contains(c.out.Bytes(), []byte("aborted")) {
		return errors.New("pgbench: " + lastLines(c.out.String(), 5))
	}
	return nil
}
