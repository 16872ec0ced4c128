package guide

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/engine"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// startInside runs an engine in this process, where its heap can be measured and its methods be called, and gives its
// address.
func startInside(t *testing.T, flags ...string) (*engine.Engine, string) {
	t.Helper()
	file := write(t, "k.yaml", fmt.Sprintf("databases: [{name: \"*\", hosts: [%q]}]\nauth: {method: trust}\n", pgtest.Shared(t).Addr()))
	cfg, _, problems := configs.Load(file, nil, append([]string{"--server.listen=127.0.0.1:0"}, flags...))
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
		_ = e.Drain(time.Second, now) // the clients' transactions are cut
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})
	return e, e.Listeners()[0].Address
}

// TestPauseOfTheGuide: who waits during a pause is told when pause_timeout_ms is over, however short checkout_timeout_ms
// is; a queue that is full refuses meanwhile; resume lets go who waits.
func TestPauseOfTheGuide(t *testing.T) {
	t.Parallel()
	messages := documented(t)
	e, address := startInside(t, "--capacity.pause-timeout-ms=200", "--capacity.checkout-timeout-ms=100")
	c := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	if err := e.Pause(t.Context(), view.Scope{}); err != nil {
		t.Fatal(err)
	}
	_, err := c.Exec("select 1")
	if got := refusal(t, answer{err: err}).Fields['M']; number.ReplaceAllString(got, "N") != number.ReplaceAllString(messages[4], "N") {
		t.Errorf("got %q, want %q", got, messages[4])
	}
	counted(t, e)

	e, address = startInside(t, "--capacity.max-route-waiters=1", "--admission.route-key=database,user")
	two := []*pgwire.Conn{c, c}
	for i := range two {
		two[i] = pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
	}
	if err := e.Pause(t.Context(), view.Scope{}); err != nil {
		t.Fatal(err)
	}
	answers := ask(two, "select 1")
	if got := refusal(t, <-answers).Fields['M']; got != messages[0] {
		t.Errorf("got %q, want %q", got, messages[0])
	}
	if err := e.Resume(view.Scope{}); err != nil {
		t.Fatal(err)
	}
	if a := <-answers; a.err != nil {
		t.Errorf("after the pause: %v", a.err)
	}
}

// counted: what the guide says is counted is, with the words that it names.
func counted(t *testing.T, e *engine.Engine) {
	t.Helper()
	m, timeouts := e.Metrics(), e.Totals().Timeouts
	i := slices.IndexFunc(m.Routes, func(r view.RouteMetrics) bool { return r.Route == "postgres/postgres//read" })
	if i < 0 || !slices.Contains(m.Routes[i].Events, view.Count{Label: "timed_out", N: 1}) || timeouts["pause"] != 1 {
		t.Fatalf("counted: %+v", m)
	}
	for _, row := range overload.table(t, "value | says |") {
		var words []string // those of two rows
		switch {
		case strings.Contains(row[0], "events_total"):
			for _, k := range m.Routes[i].Events {
				words = append(words, k.Label)
			}
		case strings.Contains(row[0], "checkout_wait_ms"):
			for _, k := range m.Routes[i].Waits {
				words = append(words, k.Cause)
			}
		}
		for _, word := range words {
			if !strings.Contains(row[1]+row[2], word) {
				t.Errorf("%s counts %q, which the guide does not name", row[0], word)
			}
		}
	}
}
