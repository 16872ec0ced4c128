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

// errSkipped wraps why a driver cannot be had on this machine.
var errSkipped = errors.New("cannot be had here")

// ready fetches and builds a driver. errSkipped: its packages or its toolchain cannot be had; another error: ours is wrong.
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
	for _, t := range d.kind.tools {
		if err := t.provide(); err != nil {
			return nil, fmt.Errorf("%w: %w", errSkipped, err)
		}
	}
	mark := k.path("fetched")
	if _, err := os.Stat(mark); err != nil && d.kind.fetch != nil {
		if err := d.kind.fetch(k); err != nil {
			return nil, fmt.Errorf("%w: %w", errSkipped, err)
		}
		if err := os.WriteFile(mark, nil, 0o644); err != nil {
			return nil, err
		}
	}
	if d.kind.build != nil {
		if err := d.kind.build(k); err != nil {
			return nil, fmt.Errorf("building %s: %w", d.name, err)
		}
	}
	return k, nil
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
