//go:build !race

package engine_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// BenchmarkQuery: one simple query of one client after the other through a loop; cpu-ns/op is the process's, client included.
func BenchmarkQuery(b *testing.B) {
	_, address := start(b, pgtest.Shared(b), "--server.loops=1", "--log.connections=false")
	c := pgwire.Login(b, "tcp", address, "user", "postgres", "database", "postgres")
	_ = c.Net.SetDeadline(time.Time{})
	message, buf := pgwire.Query("select 1"), make([]byte, 4096)
	exchange(b, c.Net, message, buf, 1000)
	before := cpu(b)
	for b.Loop() {
		exchange(b, c.Net, message, buf, 1)
	}
	b.ReportMetric(float64(cpu(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpu is what the process has used, in ns.
func cpu(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
