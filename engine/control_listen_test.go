package engine_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// listening loads the settings of startAt with other addresses.
func listening(t testing.TB, host string, addresses []string, more ...string) (*configs.Config, *configs.Origins) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "k.yaml")
	must(t, os.WriteFile(file, []byte(trusting(fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\n", host))), 0o600))
	flags := append([]string{"--server.listen=" + strings.Join(addresses, ",")}, more...)
	cfg, origins, problems := configs.Load(file, nil, flags)
	for _, p := range problems {
		t.Fatal(p)
	}
	return cfg, origins
}

// TestReloadOfAddresses: while clients log in, addresses come and go; nobody fails on the one that stays, and whoever is
// connected to one that goes stays.
func TestReloadOfAddresses(t *testing.T) {
	t.Parallel()
	host := pgtest.Shared(t).Addr()
	e, stays := startAt(t, host, "--server.loops=2")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	var logins atomic.Int64
	for range 8 {
		clients.Go(func() {
			for !isClosed(stop) {
				c, err := pgwire.Open("tcp", stays)
				if err == nil {
					_, err = c.Login(0, "user", "postgres", "database", "postgres")
					c.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
				logins.Add(1)
			}
		})
	}
	var there []*pgwire.Conn
	for i := range 20 {
		dir := t.TempDir()
		addresses := []string{"127.0.0.1:0"}
		if i%2 == 0 {
			addresses = append(addresses, "127.0.0.2:0")
		}
		before := logins.Load()
		cfg, origins := listening(t, host, addresses, "--server.loops=2", "--server.unix-socket-dir="+dir, fmt.Sprintf("--server.backlog=%d", 100+i))
		notices, err := e.Reload(cfg, origins)
		must(t, err)
		if len(notices) != 0 {
			t.Errorf("notices %v", notices)
		}
		for _, l := range e.Listeners() {
			if l.Address != stays {
				there = append(there, pgwire.Login(t, l.Network, l.Address, "user", "postgres", "database", "postgres"))
			}
		}
		until(t, "logins", func() bool { return logins.Load() > before+5 })
	}
	close(stop)
	clients.Wait()
	if len(there) != 30 || e.Listeners()[0].Address != stays {
		t.Errorf("%d came by other addresses; %v", len(there), e.Listeners())
	}
	for _, c := range there {
		usable(t, c)
	}
}

// TestReloadOfAnAddressInUse changes nothing at all.
func TestReloadOfAnAddressInUse(t *testing.T) {
	t.Parallel()
	host := pgtest.Shared(t).Addr()
	e, address := startAt(t, host)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = taken.Close() }()
	cfg, origins := listening(t, host, []string{taken.Addr().String()}, "--capacity.pool-max-size=3")
	if _, err := e.Reload(cfg, origins); err == nil || !strings.Contains(err.Error(), taken.Addr().String()) || !strings.Contains(err.Error(), "server.listen") {
		t.Errorf("%v", err)
	}
	usable(t, login(t, address))
	if x := explained(t, e, "postgres", "pool_max_size"); x.Value == "3" {
		t.Error("half of the settings hold")
	}
}

// TestReloadOfLoginLimits: they hold for those whose login is under way, too.
func TestReloadOfLoginLimits(t *testing.T) {
	t.Parallel()
	host := pgtest.Shared(t).Addr()
	e, address := startAt(t, host)
	silent := func() *pgwire.Conn {
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, pgwire.SSLRequest())
		if _, err := c.ReadByte(); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first, second := silent(), silent()
	reload := func(more ...string) {
		t.Helper()
		cfg, origins := listening(t, host, []string{"127.0.0.1:0"}, more...)
		notices, err := e.Reload(cfg, origins)
		must(t, err)
		if len(notices) != 0 {
			t.Errorf("notices %v", notices)
		}
	}
	reload("--server.max-unauthenticated=1")
	late := pgwire.Dial(t, "tcp", address)
	send(t, late, pgwire.SSLRequest())
	if _, err := late.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a third one was let in beside two of one: %v", err)
	}
	reload("--server.login-timeout-ms=150", "--server.max-buffer-memory=64MiB")
	begun := time.Now()
	ended(t, first, "08006")
	ended(t, second, "08006")
	if took := time.Since(begun); took > patience/2 {
		t.Errorf("after %v", took)
	}
	if row := limitRow(t, e, "max_buffer_memory", ""); row.Value != 64<<20 {
		t.Errorf("max_buffer_memory %d", row.Value)
	}
	if row := limitRow(t, e, "max_unauthenticated", ""); row.Value != 1000 {
		t.Errorf("max_unauthenticated %d", row.Value)
	}
}

// TestReloadTellsWhatWaits: of section server, what needs a restart, and what holds for new clients only.
func TestReloadTellsWhatWaits(t *testing.T) {
	t.Parallel()
	host := pgtest.Shared(t).Addr()
	e, _ := startAt(t, host, "--server.loops=1")
	cfg, origins := listening(t, host, []string{"127.0.0.1:0"}, "--server.loops=2", "--server.io-uring=false", "--server.tcp-keepalive-ms=1000",
		"--server.tcp-user-timeout-ms=1000")
	notices, err := e.Reload(cfg, origins)
	must(t, err)
	var all []string
	for _, n := range notices {
		all = append(all, n.String())
	}
	want := "server.loops: needs a restart; server.io_uring: needs a restart; server.tcp_keepalive_ms: takes effect for clients that connect from now on; " +
		"server.tcp_user_timeout_ms: takes effect for clients that connect from now on"
	if got := strings.Join(all, "; "); got != want {
		t.Errorf("notices %s\nwant %s", got, want)
	}
}
