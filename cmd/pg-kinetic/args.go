package main

import (
	"fmt"
	"slices"
	"strings"
)

const (
	commandServe   = "serve"
	commandCheck   = "check"
	commandConfig  = "config"
	commandVersion = "version"
)

var commands = []string{commandServe, commandCheck, commandConfig, commandVersion}

// invocation is the command line, taken apart.
type invocation struct {
	command  string
	config   string   // path of the settings file; empty: none
	settings []string // the remaining arguments: --section.name=value, judged by configs
	help     bool
}

// parseArgs takes the command (the first argument, serve when it is a flag) and the command's own flags out of the
// arguments. The flags of settings are left to configs, which tells all their problems together with the file's.
func parseArgs(args []string) (invocation, error) {
	inv := invocation{command: commandServe}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		inv.command, args = args[0], args[1:]
		if inv.command == "help" {
			inv.help = true
			return inv, nil
		}
		if !slices.Contains(commands, inv.command) {
			return inv, fmt.Errorf("no such command %q; commands: %s", inv.command, strings.Join(commands, ", "))
		}
	}
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(args[i], "=")
		switch name {
		case "-h", "--help":
			inv.help = true
		case "--version":
			inv.command = commandVersion
		case "-c", "--config":
			if !hasValue && i+1 < len(args) {
				i++
				value = args[i]
			}
			if value == "" {
				return inv, fmt.Errorf("%s needs the path of a file", name)
			}
			if inv.config != "" {
				return inv, fmt.Errorf("--config is given twice: %q and %q", inv.config, value)
			}
			inv.config = value
		default:
			inv.settings = append(inv.settings, args[i])
		}
	}
	return inv, nil
}
