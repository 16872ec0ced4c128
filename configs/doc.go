// Package configs holds the settings of pg-kinetic: their types, their table (name, kind, default, bounds, meaning), and
// how they are read.
//
// Settings come in four layers, each over the one before: defaults, file (YAML, or TOML by its ending), environment, flags.
// Everything is checked against the one table in options_*.go before it is layered, so that a problem is told with the
// place where it was written; all problems are told, not the first alone.
package configs

//go:generate go test -run TestGeneratedFiles -update .
