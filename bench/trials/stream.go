package trials

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/pgbench"
)

// stream moves large results or COPY data through sessions: as fast as they go, or ("slow", with a rate in bytes per second) as
// slowly as the clients read.
type stream struct {
	Setup
	load.Stream
}

// line is a row of COPY … FROM STDIN.
var line = append(bytes.Repeat([]byte{'x'}, 1023), '\n')

func openStream(ctx context.Context, s Setup) (Trial, error) {
	if s.Case.Prepare != "" {
		server := s.client()
		server.Host, server.Port = s.Server.Host, s.Server.Port
		if err := pgbench.SQL(ctx, server, s.Case.Prepare); err != nil {
			return nil, err
		}
	}
	t := &stream{Setup: s, Stream: load.Stream{
		Application: "stream", Sessions: s.Case.Clients, Query: s.Case.Query, Rate: s.Case.Count("rate"),
		InputBytes: int64(s.Case.Param("input_bytes")),
	}}
	if t.InputBytes > 0 {
		t.Input = line
	}
	once := t.Stream
	once.Requests, once.Rate = 1, 0
	_, err := t.flow(once.Run(ctx, s.server()))
	return t, err
}

// flow checks that all requests were served.
func (t *stream) flow(f *load.Flow, err error) (*load.Flow, error) {
	if err == nil && (f.Failed > 0 || f.Unanswered > 0 || f.Served == 0) {
		err = fmt.Errorf("%d requests were served, %d failed, %d are not answered", f.Served, f.Failed, f.Unanswered)
		err = errors.Join(err, f.Err)
	}
	return f, err
}

func (t *stream) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	run := t.Stream
	run.Span = t.Length
	highest := func() (int64, error) { return 0, nil }
	if roots := t.Target.Roots(); len(roots) > 0 {
		highest = measure.PeakResident(roots[0])
	}
	var f *load.Flow
	spent, err := t.during(func() (err error) {
		f, err = t.flow(run.Run(ctx, t.server()))
		return err
	})
	top, watchErr := highest()
	if err != nil {
		return round, err
	}
	megabytes := f.PerSecond() * f.Span.Seconds() / 1e6
	round = figures.Round{Others: spent.share.Others, Disturbed: !spent.share.Calm(), Sample: figures.Sample{}}
	if t.Rate == 0 { // else it is the clients who determine that
		round.Sample[figures.Throughput] = f.PerSecond() / 1e6
		round.Sample[figures.P50] = millis(f.Latency.Quantile(0.5))
		round.Sample[figures.P99] = millis(f.Latency.Quantile(0.99))
	}
	if top > 0 {
		round.Sample[figures.CPUPerMB] = spent.pooler.Seconds() * 1e6 / megabytes
		round.Sample[figures.Resident] = float64(top) / (1 << 20)
	}
	return round, watchErr
}

func (t *stream) Close() error { return nil }
