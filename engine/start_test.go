package engine_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
)

// start runs an engine in this process in front of pg and returns it with its
// address. settings are flags in the command's form; every database goes to pg.
func start(t testing.TB, pg *pgtest.Server, settings ...string) (*engine.Engine, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "k.yaml")
	text := fmt.Sprintf("server: {listen: [\"127.0.0.1:0\"]}\ndatabases:\n  - {name: session, hosts: [%q], dbname: postgres, pool_mode: session}\n"+
		"  - {name: \"*\", hosts: [%q]}\n", pg.Addr(), pg.Addr())
	if err := os.WriteFile(file, []byte(trusting(text)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, problems := configs.Load(file, nil, settings)
	for _, p := range problems {
		t.Fatal(p.String())
	}
	e, err := engine.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.Start()
	t.Cleanup(func() {
		now := make(chan struct{})
		close(now)
		_ = e.Drain(time.Second, now) // whether transactions were cut is the test's business
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e, e.Listeners()[0].Address
}
