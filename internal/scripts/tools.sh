#!/bin/sh
# Checks that what the Makefile calls is there, and installs from the system's packages what is small and missing.
# Usage: tools.sh [go] [cc] [pgbouncer] [pip] [npm] [debootstrap]
set -eu

fail() { echo "$*" >&2; exit 1; }

install() {
	command -v apt-get >/dev/null 2>&1 || fail "$1 is missing and there is no apt-get to install it with"
	root=""
	[ "$(id -u)" = 0 ] || root=sudo
	echo "installing $1 from the system's packages" >&2
	$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 update >&2
	$root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$1" >&2
}

need_go() {
	command -v go >/dev/null 2>&1 || fail "the Go toolchain is missing: install Go $want or newer from https://go.dev/dl/ and put its bin directory into PATH"
	have=$(go env GOVERSION | sed 's/^go//')
	[ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -1)" = "$want" ] ||
		fail "Go $have is too old: pg-kinetic needs $want or newer, see https://go.dev/dl/"
}

want=$(sed -n 's/^go //p' "$(dirname "$0")/../../go.mod")
for tool in "$@"; do
	case $tool in
	go) need_go ;;
	cc) command -v gcc >/dev/null 2>&1 || command -v clang >/dev/null 2>&1 || { install gcc; install libc6-dev; } ;;
	pgbouncer) command -v pgbouncer >/dev/null 2>&1 || [ -x /usr/sbin/pgbouncer ] || install pgbouncer ;;
	debootstrap) command -v debootstrap >/dev/null 2>&1 || [ -x /usr/sbin/debootstrap ] || install debootstrap ;;
	npm) command -v npm >/dev/null 2>&1 || install npm ;;
	pip) python3 -m pip --version >/dev/null 2>&1 || install python3-pip ;;
	*) fail "tools.sh: unknown tool $tool" ;;
	esac
done
