package main

import (
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

var (
	ready = pgwire.Raw('Z', []byte{'I'})
	full  = pgwire.Raw('E', []byte("SERROR\x00VERROR\x00C53300\x00Mfull\x00\x00"))
	other = pgwire.Raw('E', []byte("SERROR\x00VERROR\x00C42P01\x00Mno such table\x00\x00"))
	row   = pgwire.Raw('D', []byte{0, 1, 0, 0, 0, 1, '1'})
)

// scripted is a server of one session that answers its n-th query with the n-th answer, each part in a packet of its own.
func scripted(t *testing.T, answers ...[][]byte) *pooler.Pooler {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- serveScript(ln, answers) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-failed; err != nil {
			t.Error(err)
		}
	})
	return &pooler.Pooler{Port: ln.Addr().(*net.TCPAddr).Port}
}

func serveScript(ln net.Listener, answers [][][]byte) error {
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	buf := make([]byte, 4096)
	if _, err := c.Read(buf); err != nil {
		return err
	}
	hello := append(pgwire.Raw('R', []byte{0, 0, 0, 0}), ready...)
	if _, err := c.Write(hello); err != nil {
		return err
	}
	query := buf[:len(pgwire.Query("select 1"))]
	for i, parts := range answers {
		if _, err := io.ReadFull(c, query); err != nil {
			return fmt.Errorf("query %d: %w", i+1, err)
		}
		for _, part := range parts {
			if _, err := c.Write(part); err != nil {
				return err
			}
			time.Sleep(time.Millisecond) // a packet of its own, and some time for the measured latency
		}
	}
	return nil
}

func scriptedLoad(t *testing.T, answers ...[][]byte) *load {
	t.Helper()
	l, err := newLoad(scripted(t, answers...), "script", "select 1", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

func TestOpenLoopCountsFromTheSchedule(t *testing.T) {
	l := scriptedLoad(t, [][]byte{row, ready}, [][]byte{full[:7], full[7:], ready}, [][]byte{row, ready[:2], ready[2:]})
	got, err := l.open([]int64{0, 0, 0}, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.served) != 2 || len(got.refused) != 1 || got.within != 2 || len(got.late) != 3 || len(got.refusals) != 1 {
		t.Fatalf("tally %+v", got)
	}
	// The server took at least 1, 2 and 2 ms, one after the other, and all three requests were due at the beginning.
	if got.served[0] < 1e6 || got.refused[0] < 3e6 || got.served[1] < 5e6 || got.late[2] < 3e6 {
		t.Errorf("latencies %v and %v, sent late by %v", got.served, got.refused, got.late)
	}
	if g := got.goodput(); g != 0.2 {
		t.Errorf("goodput %v/s, want 2 in 10 s", g)
	}
}

func TestClosedLoopSendsItsNumber(t *testing.T) {
	l := scriptedLoad(t, [][]byte{ready}, [][]byte{append(full, ready...)}, [][]byte{ready})
	if got, err := l.closed(3, 5); err != nil || len(got.served) != 2 || len(got.refused) != 1 || got.span < 2e6 {
		t.Errorf("tally %+v, %v", got, err)
	}
}

func TestOtherErrorsEndALoad(t *testing.T) {
	l := scriptedLoad(t, [][]byte{append(other, ready...)})
	if _, err := l.open([]int64{0}, time.Second); err == nil || err.Error() != "ERROR 42P01: no such table" {
		t.Errorf("got %v", err)
	}
}

func TestSchedules(t *testing.T) {
	at := poisson(1, 1000, 10*time.Second)
	if n := len(at); n < 9500 || n > 10500 {
		t.Errorf("%d arrivals in 10 s at 1000/s", n)
	}
	for i := range at {
		if at[i] >= 10e9 || i > 0 && at[i] < at[i-1] {
			t.Fatalf("arrival %d at %d after %d", i, at[i], at[max(i-1, 0)])
		}
	}
}

func TestQuantilesAndGaps(t *testing.T) {
	ns := make([]int64, 100)
	for i := range ns {
		ns[i] = int64(100 - i)
	}
	if a, b := quantile(ns, 0.5), quantile(ns, 0.99); a != 51 || b != 100 {
		t.Errorf("of 1 to 100: %d and %d", a, b)
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("a quantile of nothing")
	}
	for _, c := range []struct {
		at   []int64
		want time.Duration
	}{{nil, 100}, {[]int64{10, 20}, 80}, {[]int64{70, 90}, 70}, {[]int64{30, 90, 300}, 60}} {
		if got := (&tally{span: 100, refusals: c.at}).longestGap(); got != c.want {
			t.Errorf("refusals at %v of 100: longest gap %d, want %d", c.at, got, c.want)
		}
	}
}

func TestRefusalsCoverAQueue(t *testing.T) {
	// 100 requests a second end: a queue of `waiters` is not empty for waiters × 10 ms.
	const drain = waiters * 10 * time.Millisecond
	if !refusalsCover(drain-1, 100) || refusalsCover(drain, 100) {
		t.Errorf("gaps of %v and %v: %v, %v", drain-1, drain, refusalsCover(drain-1, 100), refusalsCover(drain, 100))
	}
}
