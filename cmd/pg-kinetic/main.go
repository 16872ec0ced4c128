// Command pg-kinetic is a PostgreSQL connection pooler. See help.go for its commands.
package main

import (
	"fmt"
	"io"
	"os"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the settings are wrong, or serving failed
	exitUsage   = 2 // the command line itself is wrong
)

func main() {
	os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// run is main with what it depends on as arguments; it returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	inv, err := parseArgs(args)
	if err != nil {
		writeLine(stderr, "pg-kinetic: "+err.Error())
		writeLine(stderr, `Try "pg-kinetic --help".`)
		return exitUsage
	}
	switch {
	case inv.help:
		writeLine(stdout, helpText())
		return exitOK
	case inv.command == commandVersion:
		writeLine(stdout, "pg-kinetic "+version())
		return exitOK
	}
	from := source{inv.config, environ, inv.settings}
	if inv.command == commandConfig {
		return printConfig(from, stdout, stderr)
	}
	l, err := from.load()
	switch {
	case err != nil:
		writeLine(stderr, err.Error()) // one problem a line
		return exitFailure
	case inv.command == commandCheck:
		return check(inv.config, &l, stdout, stderr)
	}
	return start(from, l, stderr)
}

// writeLine writes one line for a person. A terminal or pipe that is gone cannot be told so: the error has no reader.
func writeLine(w io.Writer, line string) { _, _ = fmt.Fprintln(w, line) }
