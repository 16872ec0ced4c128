#!/bin/sh
# Runs every fuzz target of the module for $1 (default 10s), one after the other, with the committed corpus as its start.
set -eu
time=${1:-10s}
cd "$(dirname "$0")/../.."
found=0
for file in $(git ls-files '*_test.go' 2>/dev/null || find . -name '*_test.go'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=$((found + 1))
		echo "fuzz $(dirname "$file") $target $time"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "./$(dirname "$file")"
	done
done
[ "$found" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
