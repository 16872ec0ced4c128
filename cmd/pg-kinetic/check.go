package main

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"pgkinetic/configs"
	"pgkinetic/engine"
)

// check reports settings with which the process would start: the warnings, then that they are valid.
func check(path string, l *loaded, stdout, stderr io.Writer) int {
	warnings := l.warnings(hardDescriptorLimit())
	for _, w := range warnings {
		writeLine(stderr, fmt.Sprintf("%s: warning: %s", w.Place, w.Message))
	}
	if path == "" {
		path = "settings"
	}
	if len(warnings) > 0 {
		writeLine(stdout, fmt.Sprintf("%s: valid, %d warning(s)", path, len(warnings)))
	} else {
		writeLine(stdout, path+": valid")
	}
	return exitOK
}

// printConfig prints the effective settings, though they may be incomplete.
func printConfig(from source, stdout, stderr io.Writer) int {
	cfg, origins, problems := configs.Load(from.path, from.environ, from.flags)
	if len(problems) > 0 {
		writeLine(stderr, engine.ProblemsError(problems).Error())
		return exitFailure
	}
	if err := configs.Print(stdout, cfg, origins); err != nil {
		writeLine(stderr, "pg-kinetic: cannot print the settings: "+err.Error())
		return exitFailure
	}
	return exitOK
}

// hardDescriptorLimit returns the hard limit of open files; 0 when the system does not tell.
func hardDescriptorLimit() uint64 {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Max
}
