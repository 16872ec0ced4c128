package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"
)

// reload.watch looks at the files themselves, not for events about them: that finds a file replaced by another name, a link
// anywhere on the way to it that leads elsewhere (as in a mounted ConfigMap), a directory that was made anew, and works on
// every file system, with nothing that the system could refuse to give. It costs a few system calls twice a second.

const (
	lookEvery  = 500 * time.Millisecond
	settleTime = 200 * time.Millisecond // files that change are read when they have stayed the same for so long,
	settleMost = 10                     // or after so many times that
)

// look is what tells one state of a file from another, without its content: who it is and when it last changed; or why that
// is not known.
type look string

func lookAt(path string) look {
	info, err := os.Stat(path) // follows links
	if err != nil {
		return look(err.Error())
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return look(fmt.Sprint(s.Dev, s.Ino, s.Size, s.Mtim, s.Ctim))
	}
	return look(fmt.Sprint(info.Size(), info.ModTime()))
}

// looks are of several files, by path.
type looks map[string]look

// add looks at files at which nobody has looked.
func (l looks) add(paths ...string) {
	for _, path := range paths {
		if _, seen := l[path]; !seen {
			l[path] = lookAt(path)
		}
	}
}

// keep forgets all but some files.
func (l looks) keep(paths []string) {
	maps.DeleteFunc(l, func(path string, _ look) bool { return !slices.Contains(paths, path) })
}

// differ names the files that are not as in other.
func (l looks) differ(other looks) (paths []string) {
	for path, is := range l {
		if other[path] != is {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// watch reloads when files have changed, until done is closed.
func (r *reloader) watch(done <-chan struct{}) {
	for pause(lookEvery, done) {
		changed := r.changed()
		if len(changed) == 0 {
			continue
		}
		settle(changed, done)
		r.log.Info("files have changed: reloading", "files", changed)
		_, _ = r.Reload() // the log has all of it
	}
}

// settle waits until files stay as they are: whoever changes them may not be done.
func settle(paths []string, done <-chan struct{}) {
	before := looks{}
	before.add(paths...)
	for range settleMost {
		if !pause(settleTime, done) {
			return
		}
		now := looks{}
		now.add(paths...)
		if maps.Equal(now, before) {
			return
		}
		before = now
	}
}

// pause waits, and answers false if done is closed meanwhile.
func pause(d time.Duration, done <-chan struct{}) bool {
	select {
	case <-time.After(d):
		return true
	case <-done:
		return false
	}
}
