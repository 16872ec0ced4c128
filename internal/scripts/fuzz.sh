#!/bin/sh
# Runs every fuzz target of the module for $1 executions (default 200000), one after the other, with the committed corpus as
# its start. A count and not a duration: when a duration ends, Go before 1.27 may report its own deadline as a failure of the
# target (go.dev/issue/75804).
set -eu
execs=${1:-200000}
cd "$(dirname "$0")/../.."
found=0
for file in $(git ls-files '*_test.go' 2>/dev/null || find . -name '*_test.go'); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$file"); do
		found=$((found + 1))
		echo "fuzz $(dirname "$file") $target $execs executions"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${execs}x" "./$(dirname "$file")"
	done
done
[ "$found" -gt 0 ] || { echo "no fuzz target found" >&2; exit 1; }
