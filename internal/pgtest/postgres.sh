#!/bin/sh
# Prints the directory that holds PostgreSQL's server programs (initdb, postgres) and the client programs psql and
# pgbench. Looks in $PG_BIN, in the distributions' own places (newest version first) and in $PATH; if there is none,
# installs PostgreSQL from the system's packages and says so on standard error. Fails with a remedy where it cannot.
set -eu

say() { echo "postgres.sh: $*" >&2; }

complete() {
	for program in initdb postgres psql pgbench; do
		[ -x "$1/$program" ] || return 1
	done
}

find_bin() {
	if [ -n "${PG_BIN:-}" ]; then
		[ -x "$PG_BIN/initdb" ] && [ -x "$PG_BIN/postgres" ] && { echo "$PG_BIN"; return 0; }
		say "PG_BIN=$PG_BIN holds no initdb and postgres; point it to the bin directory of a PostgreSQL installation"
		exit 1
	fi
	for directory in $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin 2>/dev/null | sort -t/ -k5,5Vr); do
		complete "$directory" && { echo "$directory"; return 0; }
	done
	found=$(command -v initdb 2>/dev/null) || return 1
	found=$(dirname "$(readlink -f "$found")")
	complete "$found" && echo "$found"
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		say "PostgreSQL is missing and installing it needs root; install it (Debian/Ubuntu: apt-get install postgresql)"
		say "or set PG_BIN to the bin directory of one"
		exit 1
	fi
}

# The package would start a cluster of its own on port 5432: we want the programs only.
install_packages() {
	command -v apt-get >/dev/null 2>&1 || {
		say "no PostgreSQL found and no apt-get to install it with; install PostgreSQL or set PG_BIN to its bin directory"
		exit 1
	}
	say "no PostgreSQL found: installing it from the system's packages (apt-get install postgresql)"
	apt="env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300"
	as_root $apt update >&2
	as_root $apt install --no-install-recommends postgresql-common >&2
	drop_in=/etc/postgresql-common/createcluster.d/no-main-cluster.conf
	as_root sh -c "mkdir -p ${drop_in%/*} && echo 'create_main_cluster = false' >$drop_in"
	status=0
	as_root $apt install --no-install-recommends postgresql postgresql-client >&2 || status=$?
	as_root rm -f "$drop_in"
	return $status
}

if ! find_bin; then
	install_packages
	find_bin || {
		say "PostgreSQL was installed but its programs were not found; set PG_BIN to its bin directory"
		exit 1
	}
fi
