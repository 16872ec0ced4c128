package trials

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
)

// scrape has many clients on many routes, a few of whom ask at a time, and looks at the pooler meanwhile: its metrics, its clients
// by the console and by HTTP. The same requests alone say what that costs them.
type scrape struct {
	Setup
	clients *load.Group
	routes  int
	http    http.Client
	console *pgconn.PgConn
}

func openScrape(ctx context.Context, s Setup) (_ Trial, err error) {
	t := &scrape{Setup: s, routes: s.Case.Count("routes"), http: http.Client{Timeout: load.Silence}}
	if err := s.acquaint(ctx); err != nil {
		return nil, err
	}
	classes := make([]load.Class, t.routes)
	for i := range classes {
		n := s.Case.Clients*(i+1)/t.routes - s.Case.Clients*i/t.routes
		classes[i] = load.Class{Application: fmt.Sprintf("application-%03d", i), Query: s.Case.Query, Sessions: n}
	}
	if t.clients, err = load.Dial(s.server(), load.Measured, classes...); err != nil {
		return nil, err
	}
	if err = t.greet(ctx); err == nil {
		err = t.warmUp(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// greet has every client ask once, so that each is what a client in use is.
func (t *scrape) greet(ctx context.Context) error {
	sessions := t.Case.Clients/t.routes + 1
	for class := range t.routes {
		tally, err := t.clients.Repeat(ctx, class, sessions, min(sessions, 4), 0)
		if err == nil {
			err = unexpected(tally)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// warmUp logs in to the console and looks at everything once.
func (t *scrape) warmUp(ctx context.Context) (err error) {
	s := t.Target.Server
	dsn := fmt.Sprintf("host=%s port=%d user=%s dbname=pg_kinetic sslmode=disable", s.Host, s.Port, s.User)
	if t.console, err = pgconn.Connect(ctx, dsn); err != nil {
		return err
	}
	for range 10 {
		for _, look := range t.looks() {
			if err := look.once(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// look is one way to look at the pooler.
type look struct {
	time, worst figures.Figure // how long it takes
	beside      figures.Figure // p99 of requests meanwhile
	once        func(context.Context) error
}

func (t *scrape) looks() []look {
	get := func(path string) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := t.get(ctx, path)
			return err
		}
	}
	return []look{
		{figures.Scrape, figures.ScrapeMost, figures.Beside, get("/metrics")},
		{figures.Show, figures.ShowMost, figures.BesideShow, t.show},
		{figures.Rows, figures.RowsMost, figures.BesideRows, get("/api/v1/clients")},
	}
}

// get reads an answer as Prometheus does: compressed, by a connection that stays.
func (t *scrape) get(ctx context.Context, path string) (bytes int64, err error) {
	answer, err := t.request(ctx, path, "gzip")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	return io.Copy(io.Discard, answer.Body)
}

func (t *scrape) request(ctx context.Context, path, encoding string) (*http.Response, error) {
	address := net.JoinHostPort(t.Target.Server.Host, strconv.Itoa(t.Target.Extra))
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept-Encoding", encoding) // set by hand: the client leaves the body as it comes
	answer, err := t.http.Do(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("%s: %s", path, answer.Status), answer.Body.Close())
	}
	return answer, err
}

// show reads all rows of SHOW CLIENTS; there are as many as clients, and the console's own.
func (t *scrape) show(ctx context.Context) error {
	rows := 0
	results := t.console.Exec(ctx, "SHOW CLIENTS")
	for results.NextResult() {
		for reader := results.ResultReader(); reader.NextRow(); {
			rows++
		}
	}
	if err := results.Close(); err != nil {
		return err
	}
	if rows <= t.Case.Clients {
		return fmt.Errorf("SHOW CLIENTS has %d rows of %d clients", rows, t.Case.Clients)
	}
	return nil
}

// Round runs slices of requests alone and beside each look, in turn, then looks as fast as it can. Times are those of the turns that
// found the machine roomy; without any there are no latencies, and all times of looks.
func (t *scrape) Round(ctx context.Context, n int) (round figures.Round, err error) {
	looks, want := t.looks(), t.Case.Count("slices")
	latencies := make([]load.Tally, len(looks)+1) // the last: alone
	times, disturbed := make([][]float64, len(looks)), make([][]float64, len(looks))
	counted, others := 0, 0.0
	for i := 0; counted < want && i < tries*want; i++ {
		turn, took := make([]*load.Tally, len(latencies)), make([][]float64, len(latencies))
		worst := measure.Share{Free: 1}
		for k := range turn {
			k = (k + i) % len(turn)
			var l *look
			if k < len(looks) {
				l = &looks[k]
			}
			var share measure.Share
			if turn[k], took[k], share, err = t.slice(ctx, uint64(n+1)<<16|uint64(i), l); err != nil {
				return round, err
			}
			worst = worst.Worse(share)
		}
		others = max(others, worst.Others)
		into := times
		if !worst.Roomy() {
			into = disturbed
		} else {
			counted++
			for k := range turn {
				latencies[k].Add(turn[k])
			}
		}
		for k := range looks {
			into[k] = append(into[k], took[k]...)
		}
	}
	if counted == 0 {
		times = disturbed
	}
	sample := figures.Sample{}
	for k, l := range looks {
		sample[l.time], sample[l.worst] = figures.Median(times[k]), slices.Max(times[k])
		if counted > 0 {
			sample[l.beside] = millis(latencies[k].Served.Quantile(0.99))
		}
	}
	if counted > 0 {
		sample[figures.Alone] = millis(latencies[len(looks)].Served.Quantile(0.99))
	}
	if err := t.cost(ctx, sample); err != nil {
		return round, err
	}
	return figures.Round{Others: others, Disturbed: counted < want, Sample: sample}, nil
}

// slice offers the requests for a while, and looks once a second if there is something to look at. It gives how long each look
// took, ms.
func (t *scrape) slice(ctx context.Context, seed uint64, l *look) (all *load.Tally, times []float64, share measure.Share, err error) {
	span := t.Case.Span("slice_s")
	offers := make([]load.Offer, t.routes)
	for i := range offers {
		offers[i] = load.Offer{Rate: t.Case.Param("rate") / float64(t.routes), Span: span}
	}
	looking, stop := context.WithCancel(ctx)
	failed := make(chan error, 1)
	go func() { failed <- everySecond(looking, l, &times) }()
	all = &load.Tally{}
	spent, err := t.during(func() error {
		tallies, err := t.clients.Offer(ctx, seed, offers...)
		for _, one := range tallies {
			all.Add(one)
		}
		return errors.Join(err, unexpected(all))
	})
	stop()
	return all, times, spent.share, errors.Join(err, <-failed)
}

func everySecond(ctx context.Context, l *look, times *[]float64) error {
	if l == nil {
		return nil
	}
	for next := time.After(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-next:
		}
		next = time.After(time.Second)
		began := time.Now()
		if err := l.once(context.WithoutCancel(ctx)); err != nil {
			return err
		}
		*times = append(*times, millis(time.Since(began)))
	}
}

// cost looks many times while nothing else happens: what one takes of the CPU, and whether memory stays what it was.
func (t *scrape) cost(ctx context.Context, sample figures.Sample) error {
	scrapes := t.Case.Count("scrapes")
	repeat := func(n int) (err error) {
		for range n {
			var bytes int64
			if bytes, err = t.get(ctx, "/metrics"); err != nil {
				return err
			}
			sample[figures.ScrapeSize] = float64(bytes) / (1 << 10)
		}
		return nil
	}
	if err := repeat(scrapes / 10); err != nil { // buffers have their size
		return err
	}
	before, err := measure.Resident(t.Target.Roots()...)
	if err != nil {
		return err
	}
	began := time.Now()
	spent, err := t.during(func() error { return repeat(scrapes) })
	if err != nil {
		return err
	}
	busy, err := t.busy(ctx)
	if err != nil {
		return err
	}
	after, err := measure.Resident(t.Target.Roots()...)
	sample[figures.ScrapeLoops] = busy * millis(time.Since(began)) / float64(scrapes)
	sample[figures.ScrapeCPU] = spent.pooler.Seconds() * 1e3 / float64(scrapes)
	sample[figures.Growth] = float64(max(after-before, 0)) / (1 << 20)
	return err
}

// busy is the part of the last seconds that the event loops did not wait, summed over them. It asks for the text as it is.
func (t *scrape) busy(ctx context.Context) (sum float64, err error) {
	answer, err := t.request(ctx, "/metrics", "identity")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if series, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(series, "pg_kinetic_loop_busy_ratio{") {
			one, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, err
			}
			sum += one
		}
	}
	return sum, nil
}

func (t *scrape) Close() error {
	t.http.CloseIdleConnections()
	if t.console != nil {
		ctx, stop := context.WithTimeout(context.Background(), load.Silence)
		defer stop()
		_ = t.console.Close(ctx) // what it has failed at is said
	}
	t.clients.Close()
	return nil
}
