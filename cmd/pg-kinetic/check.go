package main

import (
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"pgkinetic/configs"
)

// check reports settings that Load accepted: the warnings, then that they are valid.
func check(path string, cfg *configs.Config, origins *configs.Origins, stdout, stderr io.Writer) int {
	warnings := configs.Warnings(cfg, origins, hardDescriptorLimit())
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

// printConfig prints the effective settings.
func printConfig(cfg *configs.Config, origins *configs.Origins, stdout, stderr io.Writer) int {
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
