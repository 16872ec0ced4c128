#!/bin/sh
# Installs the client libraries of other languages that the end-to-end tests use into .run/drivers, at fixed versions.
set -eu
cd "$(dirname "$0")/../.."
wanted="asyncpg==0.31.0 psycopg2-binary==2.9.11"
mark=.run/drivers/installed
[ "$(cat "$mark" 2>/dev/null)" = "$wanted" ] && exit 0
sh internal/scripts/tools.sh pip
rm -rf .run/drivers
mkdir -p .run/drivers
# shellcheck disable=SC2086 # a list of packages
PIP_ROOT_USER_ACTION=ignore python3 -m pip install --quiet --disable-pip-version-check --no-input --only-binary :all: --target .run/drivers/python $wanted
echo "$wanted" >"$mark"
