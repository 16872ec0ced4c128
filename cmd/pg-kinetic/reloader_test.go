package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/configs"
	"pgkinetic/engine"
)

// started is an engine that runs in this process under the settings of a file.
func started(t *testing.T, path string) (source, loaded, *engine.Engine) {
	t.Helper()
	from := source{path: path, flags: []string{"--server.listen=127.0.0.1:0", trust}}
	l, err := from.load()
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(l.cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	e.Start()
	t.Cleanup(func() { _ = e.Stop() })
	return from, l, e
}

// Whoever has a reload done is told what came of it, and so is each part of the process; all or none go over.
func TestReloader(t *testing.T) {
	path := settings(t, "server: {loops: 1}\n")
	from, l, e := started(t, path)
	log := slog.New(slog.DiscardHandler)
	var told []string
	var refusal error
	part := func(name string, fails bool) part {
		return func(cfg *configs.Config) (func(bool), error) {
			if fails && refusal != nil {
				return nil, refusal
			}
			return func(hold bool) { told = append(told, fmt.Sprintf("%s %v %d", name, hold, cfg.Capacity.QueryTimeoutMs)) }, nil
		}
	}
	r := newReloader(from, l, e, &manager{log: log, engine: e}, log, part("first", false), part("second", true), part("third", false))
	f := func(text string, holds int, want ...string) (notices []engine.Notice, err error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		told = nil
		notices, err = r.Reload()
		if !reflect.DeepEqual(told, want) || r.holds.Load().Capacity.QueryTimeoutMs != holds {
			t.Errorf("%s: the parts were told %q, want %q; %+v holds", text, told, want, r.holds.Load().Capacity)
		}
		return notices, err
	}
	notices, err := f("server: {loops: 2}\ncapacity: {query_timeout_ms: 7}\n", 7, "first true 7", "second true 7", "third true 7")
	if err != nil || len(notices) != 1 || notices[0].Setting != "server.loops" {
		t.Errorf("notices %v, error %v", notices, err)
	}
	_, err = f("server: {loops: none}\n", 7)
	var problems engine.ProblemsError
	if !errors.As(err, &problems) || len(problems) != 1 || problems[0].Place.String() != path+":1:17" {
		t.Errorf("bad settings: %v", err)
	}
	refusal = errors.New("no")
	if _, err = f("capacity: {query_timeout_ms: 8}\n", 7, "first false 8"); !errors.Is(err, refusal) {
		t.Errorf("a part that cannot: %v", err)
	}
	refusal = nil
	if _, err := f("capacity: {query_timeout_ms: 9}\n", 9, "first true 9", "second true 9", "third true 9"); err != nil {
		t.Error(err)
	}
	if got := r.outcomes(); !reflect.DeepEqual(got, []view.Count{{Label: "ok", N: 2}, {Label: "failed", N: 2}}) {
		t.Errorf("outcomes %v", got)
	}
}
