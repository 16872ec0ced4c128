//go:build !race

package pooler

// Race tells whether the test was built with the race detector; then the product is, too.
const Race = false
