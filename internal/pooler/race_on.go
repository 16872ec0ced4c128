//go:build race

package pooler

// raceEnabled tells whether the test was built with the race detector; then the product is, too.
const raceEnabled = true
