package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgkinetic/configs"
)

func symlink(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// Every way in which a file comes to be another one is seen, and none in which it stays the same.
func TestLooks(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(at(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one", "two"} { // as Kubernetes mounts a ConfigMap
		if err := os.Mkdir(at(name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(name+"/settings.yaml", "same")
	}
	symlink(t, "one", at("..data"))
	symlink(t, "..data/settings.yaml", at("settings.yaml"))
	write("users.txt", "a")
	paths := []string{at("settings.yaml"), at("users.txt"), at("missing")}
	before := looks{}
	before.add(paths...)
	f := func(what string, change func(), want ...string) {
		t.Helper()
		change()
		now := looks{}
		now.add(paths...)
		for i := range want {
			want[i] = at(want[i])
		}
		if got := now.differ(before); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
		before = now
	}
	f("nothing", func() {})
	f("a read", func() { _, _ = os.ReadFile(at("users.txt")) })
	f("a file beside", func() { write("beside", "x") })
	f("a link on the way", func() { symlink(t, "two", at("..data")) }, "settings.yaml")
	f("the content in place", func() { write("two/settings.yaml", "more than before") }, "settings.yaml")
	f("another file under the name", func() {
		write("new", "a")
		if err := os.Rename(at("new"), at("users.txt")); err != nil {
			t.Fatal(err)
		}
	}, "users.txt")
	f("permissions", func() {
		if err := os.Chmod(at("users.txt"), 0o640); err != nil {
			t.Fatal(err)
		}
	}, "users.txt")
	f("a new file, and one less", func() {
		write("missing", "")
		if err := os.Remove(at("users.txt")); err != nil {
			t.Fatal(err)
		}
	}, "missing", "users.txt")
}

// Files that never come to rest are read all the same.
func TestSettleEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "restless")
	f := func(changes int, want time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			var writer sync.WaitGroup
			defer writer.Wait()
			writer.Go(func() {
				for i := range changes {
					_ = os.WriteFile(path, make([]byte, i), 0o600)
					time.Sleep(settleTime * 3 / 4)
				}
			})
			synctest.Wait()
			settle([]string{path}, nil)
			if took := time.Since(begin); took != want {
				t.Errorf("%d changes: settled after %v, want %v", changes, took, want)
			}
		})
	}
	f(0, settleTime)
	f(4, 4*settleTime)
	f(100, settleMost*settleTime)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	r := serving(t, func(r *running, cmd *exec.Cmd) {
		r.settings += "reload: {watch: true}\n"
		r.write("pg-kinetic.yaml", r.settings)
	})
	before := r.Log()
	replace := func(name, text string) {
		t.Helper()
		before = r.Log()
		if err := os.Rename(r.write(name+".new", text), filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	r.enter("first")
	replace("users.txt", "\"postgres\" \"second\"\n")
	r.sees("a new file of users", before, reloaded, 1)
	r.enter("second")
	replace("pg-kinetic.yaml", "server: [\n")
	r.sees("bad settings", before, notReloaded, 1)
	r.enter("second")
	moved := r.write("others.txt", "\"postgres\" \"third\"\n")
	replace("pg-kinetic.yaml", strings.Replace(r.settings, r.users, moved, 1))
	r.sees("good settings", before, reloaded, 1)
	r.enter("third")
	replace("users.txt", "\"postgres\" \"nobody asks\"\n")
	replace("others.txt", "\"postgres\" \"fourth\"\n")
	told := r.sees("the file that is named now", before, reloaded, 1)
	if !strings.Contains(told, fmt.Sprintf("files=[%s]", moved)) {
		t.Errorf("the log does not name %s alone:\n%s", moved, told)
	}
	r.enter("fourth")
}

func TestWatchOnlyIfSet(t *testing.T) {
	r := &reloader{files: looks{"/nonexistent": "something"}}
	for _, on := range []bool{false, true} {
		r.holds.Store(&configs.Config{Reload: configs.Reload{Watch: on}})
		if changed := r.changed(); (len(changed) > 0) != on {
			t.Errorf("reload.watch %v: %q", on, changed)
		}
	}
}
