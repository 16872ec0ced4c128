package reactor

import "time"

// epoch lies a second before the start of the process, so that Now is never 0:
// a zero deadline can mean "none".
var epoch = time.Now().Add(-time.Second)

// Now returns the process's monotonic time in nanoseconds. All loops share it.
// On a loop use Loop.Now, which costs no clock call.
func Now() int64 { return int64(time.Since(epoch)) }
