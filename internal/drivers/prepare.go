package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// manifests are the files of a driver's folder that say what is to be fetched.
var manifests = []string{"requirements.txt", "package.json", "package-lock.json", "Cargo.toml", "Cargo.lock"}

// skipped is the error of a driver that cannot be had on this machine: what is missing, in words for the table, and why.
type skipped struct {
	missing string
	cause   error
}

func (s *skipped) Error() string { return s.missing + ": " + s.cause.Error() }

func (s *skipped) Unwrap() error { return s.cause }

// ready fetches and builds a driver. skipped: its packages or its toolchain cannot be had; another error: ours is wrong.
func ready(d *driver, root, cache string) (*kit, error) {
	k := &kit{driver: d, source: filepath.Join(root, "internal", "drivers", d.name)}
	print, err := fingerprint(k)
	if err != nil {
		return nil, err
	}
	k.cache = filepath.Join(cache, d.name+"-"+print)
	if err := os.MkdirAll(k.cache, 0o755); err != nil {
		return nil, err
	}
	if err := provide(d.kind.tools); err != nil {
		return nil, err
	}
	if d.kind.fetch != nil {
		err := once(k.path("fetched"), print, func() error {
			if err := provide(d.kind.clients); err != nil {
				return err
			}
			if err := d.kind.fetch(k); err != nil {
				return &skipped{"its packages cannot be had", err}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	sources, err := digest(k.source, filepath.Join(filepath.Dir(k.source), "report"))
	if err != nil {
		return nil, err
	}
	if d.kind.build != nil {
		// Go knows by itself what has changed; the others depend on nothing but their folder.
		if d.kind.always {
			err = d.kind.build(k)
		} else {
			err = once(k.path("built"), sources, func() error { return d.kind.build(k) })
		}
		if err != nil {
			return nil, fmt.Errorf("building %s: %w", d.name, err)
		}
	}
	return k, nil
}

// provide makes sure that the tools are there.
func provide(tools []tool) error {
	for _, t := range tools {
		if err := t.provide(); err != nil {
			return &skipped{t.probe[0] + " cannot be had", err}
		}
	}
	return nil
}

// once does the step unless the mark says that it was done for the same state.
func once(mark, state string, step func() error) error {
	if done, err := os.ReadFile(mark); err == nil && string(done) == state {
		return nil
	}
	if err := step(); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(state), 0o644)
}

// digest is over all files of the folders.
func digest(folders ...string) (string, error) {
	h := sha256.New()
	for _, folder := range folders {
		err := filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			fmt.Fprintf(h, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func fingerprint(k *kit) (string, error) {
	h := sha256.New()
	for _, name := range manifests {
		text, err := os.ReadFile(filepath.Join(k.source, name))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return "", err
		}
		fmt.Fprintf(h, "%s %d\n%s", name, len(text), text)
	}
	fmt.Fprintln(h, k.driver.fetch)
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

// cacheDir is where packages are kept from run to run.
func cacheDir(root string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil { // no home
		base = filepath.Join(root, ".run")
	}
	dir := filepath.Join(base, "pg-kinetic", "drivers")
	return dir, os.MkdirAll(dir, 0o755)
}
