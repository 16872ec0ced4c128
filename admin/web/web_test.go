package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgkinetic/admin"
	"pgkinetic/admin/admintest"
	"pgkinetic/admin/view"
)

// server is one that answers until the test ends; options may be changed before it does.
func server(t testing.TB, c admin.Control, change ...func(*Server)) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", Options{Control: c, Version: "1.2.3", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range change {
		f(s)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve() }()
	t.Cleanup(func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ended)
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve: %v", err)
		}
	})
	return s
}

// client makes a connection for each request and takes answers as they come.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}, Timeout: 20 * time.Second}

func ask(t testing.TB, s *Server, method, path string, headers ...string) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Set(pair[0], pair[1])
	}
	answer, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func body(t testing.TB, r *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestEndpoints(t *testing.T) {
	s := server(t, &admintest.Control{Rows: 2, Healthy: view.Health{Ready: true, Clients: 7}})
	f := func(method, path string, status int, kind string, wants ...string) {
		t.Helper()
		answer := ask(t, s, method, path)
		text := body(t, answer)
		if answer.StatusCode != status || answer.Header.Get("Content-Type") != kind {
			t.Errorf("%s %s: %s, %s: %q", method, path, answer.Status, answer.Header.Get("Content-Type"), text)
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", path, want, text)
			}
		}
	}
	f("GET", "/", 200, textPlain, "pg-kinetic 1.2.3\n", "/metrics\n", "/livez\n", "/readyz\n", "/api/v1/clients\n")
	f("GET", "/livez", 200, textPlain, "ok\n")
	f("GET", "/readyz", 200, textJSON, `"ready":true`, `"version":"1.2.3"`, `"clients":7`)
	f("GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8",
		"\n# TYPE pg_kinetic_route_in_flight gauge\n", `pg_kinetic_build_info{version="1.2.3"} 1`, "\nprocess_open_fds ")
	f("GET", "/nothing", 404, textPlain)
	f("GET", "/api/v1/config", 404, textPlain)
	f("GET", "/api/v1/fds", 404, textPlain)
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/api/v1/pools"} {
		for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			f(method, path, 405, textPlain)
		}
		if text := body(t, ask(t, s, "HEAD", path)); text != "" {
			t.Errorf("HEAD %s: %q", path, text)
		}
	}
}

func TestNotAliveAndNotReady(t *testing.T) {
	s := server(t, &admintest.Control{
		Stuck:   errors.New("loop 1 has not turned for 11 s"),
		Healthy: view.Health{Reason: "no_backend", Detail: "db:5432: connection refused", Failing: []string{"db:5432"}},
	})
	if a := ask(t, s, "GET", "/livez"); a.StatusCode != 503 || body(t, a) != "loop 1 has not turned for 11 s\n" {
		t.Error("livez:", a.Status)
	}
	a := ask(t, s, "GET", "/readyz")
	var health view.Health
	if err := json.Unmarshal([]byte(body(t, a)), &health); err != nil || a.StatusCode != 503 {
		t.Error("readyz:", a.Status, err)
	}
	want := view.Health{Reason: "no_backend", Detail: "db:5432: connection refused", Failing: []string{"db:5432"}, Version: "1.2.3"}
	if !reflect.DeepEqual(health, want) {
		t.Errorf("%+v", health)
	}
}

// Every list has an object per row with the view's columns in their order, and no value is missing.
func TestLists(t *testing.T) {
	s := server(t, &admintest.Control{Rows: 2})
	for name, of := range lister {
		a := ask(t, s, "GET", "/api/v1/"+name)
		text := body(t, a)
		var rows []map[string]any
		if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) != 2 || a.Header.Get("Content-Type") != textJSON {
			t.Errorf("%s: %v, %d rows, %s", name, err, len(rows), a.Header.Get("Content-Type"))
			continue
		}
		columns, _ := of(s.Control)
		if len(columns) == 0 {
			t.Errorf("%s has no columns", name)
		}
		for _, c := range columns {
			if v := rows[0][c.Name]; v == nil || v == "" || v == 0.0 || v == false {
				t.Errorf("%s: %s is %v", name, c.Name, v)
			}
			_, rest, found := strings.Cut(text, `"`+c.Name+`":`)
			if !found {
				t.Errorf("%s: %s is not where it belongs", name, c.Name)
			}
			text = rest
		}
		if len(rows[0]) != len(columns) {
			t.Errorf("%s: %d values in %d columns", name, len(rows[0]), len(columns))
		}
	}
	for _, name := range []string{"pools", "routes", "clients", "servers", "limits"} {
		if lister[name] == nil {
			t.Errorf("no %s", name)
		}
	}
}

func TestEmptyList(t *testing.T) {
	s := server(t, &admintest.Control{})
	for _, name := range []string{"pools", "clients"} {
		if text := body(t, ask(t, s, "GET", "/api/v1/"+name)); text != "[\n]\n" {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestLongList(t *testing.T) {
	s := server(t, &admintest.Control{Rows: 10_000})
	a := ask(t, s, "GET", "/api/v1/clients")
	var rows []struct{ User, Route string }
	if err := json.NewDecoder(a.Body).Decode(&rows); err != nil || len(rows) != 10_000 || rows[9999].Route == rows[0].Route {
		t.Errorf("%v, %d rows", err, len(rows))
	}
}

func TestCompression(t *testing.T) {
	s := server(t, &admintest.Control{Rows: 2, Healthy: view.Health{Ready: true}})
	for _, path := range []string{"/metrics", "/api/v1/clients"} {
		a := ask(t, s, "GET", path, "Accept-Encoding", "deflate, gzip;q=0.5")
		if a.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %v", path, a.Header)
		}
		z, err := gzip.NewReader(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(z)
		if err != nil || !bytes.HasSuffix(text, []byte("\n")) {
			t.Errorf("%s: %v, %d bytes", path, err, len(text))
		}
	}
	f := func(header string, want bool) {
		t.Helper()
		if acceptsGzip(header) != want {
			t.Errorf("%q: not %v", header, want)
		}
	}
	f("", false)
	f("gzip", true)
	f("deflate, br", false)
	f("br;q=1.0, GZIP ; q = 0.8", true)
	f("gzip;q=0", false)
	f("gzip;q=0.000", false)
	f("gzip;q=x", false)
	f("gzipped", false)
}

func TestPProf(t *testing.T) {
	s := server(t, &admintest.Control{})
	paths := []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/goroutine?debug=1", "/debug/pprof/symbol", "/debug/pprof/profile?seconds=1"}
	for _, path := range paths {
		if a := ask(t, s, "GET", path); a.StatusCode != 404 {
			t.Errorf("%s: %s though admin.pprof is off", path, a.Status)
		}
	}
	s.SetPProf(true)
	for _, path := range paths {
		if a := ask(t, s, "GET", path); a.StatusCode != 200 || body(t, a) == "" {
			t.Errorf("%s: %s though admin.pprof is on", path, a.Status)
		}
	}
	if a := ask(t, s, "GET", "/debug/pprof/cmdline"); a.StatusCode != 404 {
		t.Errorf("the command line is shown: %s", a.Status)
	}
	if text := body(t, ask(t, s, "GET", "/")); !strings.Contains(text, "/debug/pprof/\n") {
		t.Error("the index does not name it")
	}
}

// A profile may last longer than any other answer.
func TestProfileOutlastsTimeouts(t *testing.T) {
	t.Parallel()
	s := server(t, &admintest.Control{}, func(s *Server) {
		s.http.ReadTimeout, s.http.WriteTimeout = 200*time.Millisecond, 300*time.Millisecond
		s.SetPProf(true)
	})
	began := time.Now()
	a := ask(t, s, "GET", "/debug/pprof/trace?seconds=1")
	if text := body(t, a); a.StatusCode != 200 || text == "" || time.Since(began) < time.Second {
		t.Errorf("%s, %d bytes after %s", a.Status, len(text), time.Since(began))
	}
}

func TestListenErrors(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	f := func(addr string, wants ...string) {
		t.Helper()
		_, err := Listen(addr, Options{Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			t.Fatalf("%s can be listened on", addr)
		}
		for _, want := range append(wants, "admin.listen", addr) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%v: no %q", err, want)
			}
		}
		if strings.Count(err.Error(), addr) != 1 {
			t.Errorf("%v: the address stands there twice", err)
		}
	}
	f(taken.Addr().String(), "address already in use", "another process")
	f("192.0.2.1:6433", "cannot assign requested address")
}

func TestStrangersAreWarnedOf(t *testing.T) {
	f := func(addr string, warned bool) {
		t.Helper()
		var log bytes.Buffer
		s, err := Listen(addr, Options{Control: &admintest.Control{}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Shutdown(context.Background())
		if strings.Contains(log.String(), "level=WARN") != warned || warned && !strings.Contains(log.String(), "admin.listen") {
			t.Errorf("%s: %q", addr, log.String())
		}
	}
	f("127.0.0.1:0", false)
	f("localhost:0", false)
	f("127.9.9.9:0", false)
	f("0.0.0.0:0", true)
	f(":0", true)
}

// An address with the port of the one that it replaces is opened beside it, whichever is the wider one; nobody else gets there.
func TestListenWiderAndNarrower(t *testing.T) {
	c := &admintest.Control{}
	s := server(t, c)
	_, port, err := net.SplitHostPort(s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"", "127.0.0.1", "0.0.0.0", "localhost"} {
		addr := net.JoinHostPort(host, port)
		if _, err := Listen(addr, Options{Control: c, Log: slog.New(slog.DiscardHandler)}); err == nil {
			t.Fatalf("%s: beside nothing", addr)
		}
		next, err := Listen(addr, Options{Control: c, Log: slog.New(slog.DiscardHandler), Beside: s})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- next.Serve() }()
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		client.CloseIdleConnections()
		if a, err := client.Get("http://127.0.0.1:" + port + "/livez"); err != nil || a.StatusCode != 200 || a.Body.Close() != nil {
			t.Errorf("%s: %v", addr, err)
		}
		s = next
		t.Cleanup(func() {
			_ = next.Shutdown(context.Background())
			<-done
		})
	}
}

// A new address is open before the old one is closed, and both answer meanwhile.
func TestListenAnew(t *testing.T) {
	c := &admintest.Control{}
	old := server(t, c)
	next := server(t, c)
	for _, s := range []*Server{old, next} {
		if a := ask(t, s, "GET", "/livez"); a.StatusCode != 200 {
			t.Error(a.Status)
		}
	}
	if err := old.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if a := ask(t, next, "GET", "/livez"); a.StatusCode != 200 {
		t.Error(a.Status)
	}
	again, err := Listen(old.Addr().String(), Options{Control: c, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal("the address is not free:", err)
	}
	if err := again.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	if l, err := net.Listen("tcp", again.Addr().String()); err != nil {
		t.Error("a server that never served keeps its address:", err)
	} else {
		_ = l.Close()
	}
}
