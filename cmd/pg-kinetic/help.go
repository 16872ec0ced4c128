package main

import (
	"strings"

	"pgkinetic/configs"
)

// helpText is what --help prints.
func helpText() string {
	return strings.TrimSpace(`
pg-kinetic is a PostgreSQL connection pooler.

Usage:
  pg-kinetic [serve] [--config FILE] [--section.name=value ...]
  pg-kinetic check   [--config FILE] [--section.name=value ...]
  pg-kinetic config  [--config FILE] [--section.name=value ...]
  pg-kinetic version

Commands:
  serve    run the pooler (the default)
  check    validate the settings and the files that they name: exit 0, or exit 1 with every problem as
           file:line:col: message
  config   print the effective settings with the origin of each (default, file, env, flag); secrets masked
  version  print the version

Settings come from, each over the one before: defaults, the file (YAML, or TOML when its name ends in .toml),
the environment (PG_KINETIC_CAPACITY__MAX_ROUTE_IN_FLIGHT=8), flags. Databases, users and routes come from the file,
or as JSON lists in PG_KINETIC_DATABASES, PG_KINETIC_USERS and PG_KINETIC_ROUTES.
All of it: docs/configuration.md; defaults: pg-kinetic config.

Signals: SIGTERM or SIGINT stops after open transactions have ended (drain.timeout_ms), a second one at once. SIGHUP reads
the settings again, and the files that they name; if anything in them is wrong the log says what, and nothing changes.
With reload.watch a change of these files does so too.

Flags:
  -c, --config FILE   the settings file
  -h, --help          this text
`) + "\n\nSettings:\n" + strings.TrimRight(configs.FlagUsages(), "\n")
}
