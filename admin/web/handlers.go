package web

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"pgkinetic/admin/metrics"
)

const (
	textPlain = "text/plain; charset=utf-8"
	textJSON  = "application/json"
)

// handler knows the endpoints; other methods than GET and HEAD are answered with 405
// by the patterns.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.index)
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.Handle("GET /metrics", bounded(maxScrapes, s.metrics))
	lists := bounded(maxLists, s.list)
	for name := range lister {
		mux.Handle("GET /api/v1/"+name, lists)
	}
	mux.HandleFunc("GET /debug/pprof/", s.onlyPProf(pprof.Index)) // without cmdline: arguments are settings
	mux.HandleFunc("GET /debug/pprof/profile", s.onlyPProf(pprof.Profile))
	mux.HandleFunc("GET /debug/pprof/symbol", s.onlyPProf(pprof.Symbol))
	mux.HandleFunc("GET /debug/pprof/trace", s.onlyPProf(pprof.Trace))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(connKey{}).(*conn); ok { // without one in benchmarks
			c.answers()
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	})
}

// bounded lets so many requests in at a time and sends the others away.
func bounded(n int, h http.HandlerFunc) http.Handler {
	room := make(chan struct{}, n)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case room <- struct{}{}:
			defer func() { <-room }()
			h(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d such requests are being answered: come back in a second", n), http.StatusServiceUnavailable)
		}
	})
}

func (s *Server) index(w http.ResponseWriter, _ *http.Request) {
	var b strings.Builder
	fmt.Fprintf(&b, "pg-kinetic %s\n\n/metrics\n/livez\n/readyz\n", s.Version)
	for _, name := range listNames {
		b.WriteString("/api/v1/" + name + "\n")
	}
	if s.profiles.Load() {
		b.WriteString("/debug/pprof/\n")
	}
	write(w, http.StatusOK, textPlain, []byte(b.String()))
}

// livez says whether the process is worth keeping: whether its loops turn.
func (s *Server) livez(w http.ResponseWriter, _ *http.Request) {
	if err := s.Control.Alive(); err != nil {
		write(w, http.StatusServiceUnavailable, textPlain, []byte(err.Error()+"\n"))
		return
	}
	write(w, http.StatusOK, textPlain, []byte("ok\n"))
}

// readyz says whether clients are to be sent here.
func (s *Server) readyz(w http.ResponseWriter, _ *http.Request) {
	health := s.Control.Health()
	health.Version = s.Version
	text, err := json.Marshal(health)
	if err != nil {
		panic("BUG: " + err.Error()) // texts and numbers
	}
	status := http.StatusOK
	if !health.Ready {
		status = http.StatusServiceUnavailable
	}
	write(w, status, textJSON, append(text, '\n'))
}

func write(w http.ResponseWriter, status int, kind string, text []byte) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(status)
	_, _ = w.Write(text) // a peer that is gone cannot be told so
}

// metrics writes one snapshot, so that its numbers belong together.
func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	m := s.Control.Metrics()
	stream(w, r, metrics.ContentType, func(to io.Writer) error { return metrics.Write(to, m, s.Version) })
}

// stream answers with what is written piece by piece, compressed for who wants that.
// An error, which comes when the header is gone, cuts the connection off: else half an
// answer would look like a whole one.
func stream(w http.ResponseWriter, r *http.Request, kind string, text func(io.Writer) error) {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Vary", "Accept-Encoding")
	if r.Method == http.MethodHead {
		return
	}
	to := io.Writer(w)
	finish := func() error { return nil }
	if acceptsGzip(r.Header.Get("Accept-Encoding")) {
		w.Header().Set("Content-Encoding", "gzip")
		z := compressors.Get().(*gzip.Writer)
		defer compressors.Put(z)
		z.Reset(w)
		to, finish = z, z.Close
	}
	err := text(to)
	if err == nil {
		err = finish()
	}
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// compressors are kept because each takes more than a megabyte; maxScrapes and
// maxLists bound how many are in use.
var compressors = sync.Pool{New: func() any {
	z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
	if err != nil {
		panic("BUG: " + err.Error()) // a level of the library's own
	}
	return z
}}

// acceptsGzip reads Accept-Encoding (RFC 9110, section 12.5.3) as far as it names
// gzip: with a weight of zero it is not wanted.
func acceptsGzip(header string) bool {
	for part := range strings.SplitSeq(header, ",") {
		coding, weight, weighted := strings.Cut(part, ";")
		if !strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			continue
		}
		_, value, _ := strings.Cut(weight, "=")
		q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return !weighted || err == nil && q > 0
	}
	return false
}

// onlyPProf answers as if there were nothing unless admin.pprof is on.
func (s *Server) onlyPProf(h http.HandlerFunc) http.HandlerFunc {
	limited := bounded(maxProfiles, h)
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.profiles.Load() {
			http.NotFound(w, r)
			return
		}
		// A read that times out would end the request, and a profile lasts longer than any.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // it fails only for a connection that has failed
		limited.ServeHTTP(w, r)
	}
}
