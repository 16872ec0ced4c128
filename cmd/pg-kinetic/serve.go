package main

import (
	"log/slog"

	"pgkinetic/configs"
)

// serve runs the pooler until it is told to stop; it returns the process's exit code.
func serve(_ *configs.Config, log *slog.Logger) int {
	log.Error("this build has no engine")
	return exitFailure
}
