package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin/admintest"
	"pgkinetic/admin/view"
)

// gated is a pooler whose snapshots and lists wait for the test.
type gated struct {
	admintest.Control
	entered, gate chan struct{}
}

func newGated() *gated { return &gated{entered: make(chan struct{}, 100), gate: make(chan struct{})} }

func (g *gated) wait() {
	g.entered <- struct{}{}
	<-g.gate
}

func (g *gated) Metrics() *view.Metrics {
	g.wait()
	return g.Control.Metrics()
}

func (g *gated) Pools() []view.Pool {
	g.wait()
	return nil
}

// Scrapes, and lists, are answered so many at a time; others are sent away, and what is cheap is answered all the while.
func TestBoundedRequests(t *testing.T) {
	f := func(path string, most int) {
		t.Helper()
		g := newGated()
		s := server(t, g)
		ended := make(chan int, most)
		for range most {
			go func() {
				a := ask(t, s, "GET", path)
				_, _ = io.Copy(io.Discard, a.Body)
				ended <- a.StatusCode
			}()
		}
		for range most {
			<-g.entered
		}
		a := ask(t, s, "GET", path)
		if text := body(t, a); a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" || !strings.Contains(text, fmt.Sprint(most)) {
			t.Errorf("one too many: %s, %v, %q", a.Status, a.Header, text)
		}
		for _, other := range []string{"/livez", "/readyz", "/"} {
			_ = body(t, ask(t, s, "GET", other))
		}
		close(g.gate)
		for range most {
			if status := <-ended; status != 200 {
				t.Errorf("one of %d: %d", most, status)
			}
		}
		// The answer is there a moment before its place is free again.
		until(t, func() bool { return ask(t, s, "GET", path).StatusCode == 200 })
	}
	f("/metrics", maxScrapes)
	f("/api/v1/pools", maxLists)
}

func until(t *testing.T, ready func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !ready(); {
		if time.Now().After(deadline) {
			t.Fatal("it does not come")
		}
	}
}

// Who finds all connections taken takes the place of the one that rests longest; while all are being answered he waits.
func TestBoundedConnections(t *testing.T) {
	l, err := listen("127.0.0.1:0", 2, nil)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	accept := func() *conn {
		t.Helper()
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c.(*conn)
	}
	peers := []net.Conn{dial()}
	first := accept()
	peers = append(peers, dial())
	second := accept()
	first.answers()
	first.rests() // so the second has rested longer
	peers = append(peers, dial())
	third := accept()
	if _, err := peers[1].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the second: %v", err)
	}
	_ = second.Close() // gives nothing back twice
	if n := len(l.room); n != 2 {
		t.Errorf("%d connections are counted", n)
	}
	first.answers()
	third.answers()
	done := make(chan error, 2)
	again := func() {
		c, err := l.Accept()
		if err == nil {
			err = c.Close()
		}
		done <- err
	}
	dial()
	go again()
	select {
	case err := <-done:
		t.Fatalf("a third connection was taken: %v", err)
	case <-time.After(20 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := len(l.room); n != 1 {
		t.Errorf("%d connections are counted", n)
	}
	// Closing the address ends a wait for room, too.
	l.room <- struct{}{}
	dial()
	go again()
	_ = l.Close()
	if err := <-done; !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}

// Peers that keep connections, or begin requests, without end do not keep away who asks whether the process lives.
func TestConnectionsThatRest(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "GET /livez HT", "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n"} {
		s := server(t, &admintest.Control{})
		for range maxConnections + 3 {
			c, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Close() })
			if _, err := io.WriteString(c, text); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(text, "\n") {
				if _, err := c.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		began := time.Now()
		a := ask(t, s, "GET", "/livez")
		if took := time.Since(began); a.StatusCode != 200 || took > headerTimeout/2 {
			t.Errorf("%q: %s after %v", text, a.Status, took)
		}
	}
}

// endless gives rows until nobody takes them any more, or breaks.
type endless struct {
	admintest.Control
	breakAt int
	ended   chan struct{}
}

func (e *endless) Clients() iter.Seq[view.Client] {
	return func(yield func(view.Client) bool) {
		defer close(e.ended)
		for n := 0; n != e.breakAt; n++ {
			if !yield(view.Client{ID: uint64(n)}) {
				return
			}
		}
		panic("it breaks")
	}
}

// A list that breaks off is seen as broken off.
func TestBrokenList(t *testing.T) {
	for _, encoding := range []string{"", "gzip"} {
		e := &endless{breakAt: 1000, ended: make(chan struct{})}
		a := ask(t, server(t, e), "GET", "/api/v1/clients", "Accept-Encoding", encoding)
		_, err := io.Copy(io.Discard, a.Body)
		if a.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%q: %s, %v", encoding, a.Status, err)
		}
	}
}

// Who leaves within a list, or does not read, ends it.
func TestReaderGone(t *testing.T) {
	t.Parallel()
	f := func(leaves bool) {
		e := &endless{breakAt: -1, ended: make(chan struct{})}
		s := server(t, e, func(s *Server) {
			if !leaves {
				s.http.WriteTimeout = 100 * time.Millisecond
			}
		})
		a := ask(t, s, "GET", "/api/v1/clients")
		if _, err := io.CopyN(io.Discard, a.Body, 100); err != nil {
			t.Error(err)
		}
		if leaves {
			_ = a.Body.Close()
		}
		<-e.ended
	}
	f(true)
	f(false)
}

// Who sends no whole request is sent away, and so is who sends too much.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	s := server(t, &admintest.Control{}, func(s *Server) {
		s.http.ReadHeaderTimeout, s.http.ReadTimeout, s.http.IdleTimeout = 50*time.Millisecond, 100*time.Millisecond, 50*time.Millisecond
	})
	f := func(request, want string) {
		t.Helper()
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		r := bufio.NewReader(c)
		line, err := r.ReadString('\n')
		if !strings.Contains(line, want) || want == "" && err != io.EOF {
			t.Errorf("%.20q: %q, %v", request, line, err)
		}
		if _, err := io.Copy(io.Discard, r); err != nil {
			t.Errorf("%.20q: it is not closed: %v", request, err)
		}
	}
	f("", "")
	f("GET /livez HTTP/1.1\r\nHost: x\r\n", "")
	f("GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", "200 OK")
	f("GET /livez HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n", "200 OK")
	f("GET /livez HTTP/1.1\r\nHost: x\r\nX: "+strings.Repeat("x", maxHeaderBytes+8<<10), "431 ")
	f("GET /livez\r\n\r\n", "400 ")
}

// Shutdown waits for answers under way, and no longer than it may.
func TestShutdown(t *testing.T) {
	f := func(patient bool) {
		t.Helper()
		g := newGated()
		s := server(t, g)
		ended := make(chan error, 1)
		go func() {
			a, err := client.Get("http://" + s.Addr().String() + "/metrics")
			if err == nil {
				_, err = io.Copy(io.Discard, a.Body)
			}
			ended <- err
		}()
		<-g.entered
		ctx, cancel := context.WithCancel(context.Background())
		if patient {
			time.AfterFunc(10*time.Millisecond, func() { close(g.gate) })
		} else {
			cancel()
			defer close(g.gate)
		}
		defer cancel()
		if err := s.Shutdown(ctx); (err == nil) != patient {
			t.Error(err)
		}
		if err := <-ended; (err == nil) != patient {
			t.Error(err)
		}
		if _, err := http.Get("http://" + s.Addr().String() + "/livez"); err == nil {
			t.Error("it still answers")
		}
	}
	f(true)
	f(false)
}
