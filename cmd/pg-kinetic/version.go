package main

import (
	"runtime"
	"runtime/debug"
)

// release is the version of this source tree; a tagged build may set it with -ldflags "-X main.release=…".
var release = "0.1.0-dev"

// version returns the release, the commit where it is known, the Go version and the platform.
func version() string {
	text := release
	if info, ok := debug.ReadBuildInfo(); ok {
		commit, modified := "", false
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				commit = s.Value[:min(len(s.Value), 12)]
			case "vcs.modified":
				modified = s.Value == "true"
			}
		}
		if commit != "" {
			text += " (" + commit
			if modified {
				text += ", modified"
			}
			text += ")"
		}
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
