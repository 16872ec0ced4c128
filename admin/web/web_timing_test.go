package web

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"pgkinetic/admin/admintest"
)

func benchmark(b *testing.B, rows int, path, encoding string) {
	s, err := Listen("127.0.0.1:0", Options{Control: &admintest.Control{Rows: rows}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Shutdown(b.Context()) }()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Accept-Encoding", encoding)
	w := &sink{header: http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		w.bytes = 0
		s.http.Handler.ServeHTTP(w, r)
	}
	b.ReportMetric(float64(w.bytes), "body-B")
}

// sink is a response that is counted and forgotten.
type sink struct {
	header http.Header
	bytes  int
}

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}
func (s *sink) Write(p []byte) (int, error) {
	s.bytes += len(p)
	return len(p), nil
}

func BenchmarkMetrics(b *testing.B)     { benchmark(b, 200, "/metrics", "") }
func BenchmarkMetricsGzip(b *testing.B) { benchmark(b, 200, "/metrics", "gzip") }
func BenchmarkClients(b *testing.B)     { benchmark(b, 10_000, "/api/v1/clients", "") }
