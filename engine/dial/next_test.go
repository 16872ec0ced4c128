package dial

import (
	"context"
	"strings"
	"testing"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/internal/pgmock"
)

// TestNextHost: a host that refuses, and one that says nothing, are passed over in time; one that refuses the login is not.
func TestNextHost(t *testing.T) {
	alive := pgmock.Start(t, pgmock.Login(), pgmock.Hang())
	silent := pgmock.Start(t, pgmock.Startup(), pgmock.Hang())
	refusing := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "28P01", "no")))
	gone := pgmock.Start(t)
	gone.Down()
	chain := func(servers ...*pgmock.Server) (first *Config) {
		for i := len(servers) - 1; i >= 0; i-- {
			first = &Config{
				Host: configs.Host{Network: "tcp", Address: servers[i].Addr()}, Mode: configs.TLSDisable, Next: first,
				Login: backend.LoginConfig{User: "u", Database: "d"},
			}
		}
		return first
	}
	try := func(cfg *Config) error {
		ctx, stop := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer stop()
		c, err := Open(ctx, cfg)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := try(chain(gone, silent, alive)); err != nil {
		t.Error(err)
	}
	if err := try(chain(gone, gone)); err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("nobody there: %v", err)
	}
	before := alive.Opened()
	if err := try(chain(refusing, alive)); err == nil || backend.ClassOf(err) != backend.LoginFault || alive.Opened() != before {
		t.Errorf("a refused login: %v", err)
	}
}
