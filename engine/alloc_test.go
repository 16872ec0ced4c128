//go:build !race

package engine_test

import (
	"net"
	"runtime"
	"testing"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestAllocQueries: 10 000 queries in steady state through loops with real
// sockets cost at most 100 mallocs in the whole process, the client included.
func TestAllocQueries(t *testing.T) {
	pg := pgtest.Shared(t)
	simple := pgwire.Query("select 1")
	var extended []byte
	for _, m := range [][]byte{
		pgwire.Parse("", "select $1::int4", 23), pgwire.Bind("", "", []byte("7")),
		pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync(),
	} {
		extended = append(extended, m...)
	}
	var named []byte // of a statement that was prepared before
	for _, m := range [][]byte{pgwire.Bind("", "s", []byte("7")), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync()} {
		named = append(named, m...)
	}
	for _, loops := range []string{"1", "2"} {
		for _, c := range []struct {
			name    string
			message []byte
		}{{"simple", simple}, {"extended", extended}, {"named", named}} {
			t.Run(c.name+"_"+loops, func(t *testing.T) {
				_, address := start(t, pg, "--server.loops="+loops, "--log.connections=false")
				conn := pgwire.Login(t, "tcp", address, "user", "postgres", "database", "postgres")
				send(t, conn, pgwire.Parse("s", "select $1::int4", 23), pgwire.Sync())
				types(t, conn, 1)
				_ = conn.Net.SetDeadline(time.Time{}) // the test binary has one
				checkMallocs(t, conn.Net, c.message)
			})
		}
	}
}

func checkMallocs(t *testing.T, conn net.Conn, message []byte) {
	const (
		warmUp  = 2000
		queries = 10000
		most    = 100
	)
	buf := make([]byte, 4096)
	exchange(t, conn, message, buf, warmUp)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	exchange(t, conn, message, buf, queries)
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; n > most {
		t.Errorf("%d queries cost %d mallocs, want at most %d", queries, n, most)
	}
}

// exchange sends message n times and reads each answer to its ReadyForQuery,
// which ends the bytes: nothing is pipelined.
func exchange(t testing.TB, conn net.Conn, message, buf []byte, n int) {
	for range n {
		if _, err := conn.Write(message); err != nil {
			t.Fatal(err)
		}
		for have := 0; ; {
			k, err := conn.Read(buf[have:])
			if err != nil {
				t.Fatal(err)
			}
			have += k
			if have >= 6 && buf[have-6] == 'Z' && buf[have-2] == 5 {
				break
			}
		}
	}
}
