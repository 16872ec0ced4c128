package trials

import (
	"context"
	"errors"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
)

// churn has clients log in, leave and log in again, from one thread that takes little of the CPU.
type churn struct{ Setup }

func openChurn(ctx context.Context, s Setup) (Trial, error) {
	t := &churn{s}
	_, err := load.Churn{Application: "churn", Clients: s.Case.Clients, Span: min(time.Second, s.Length)}.Run(ctx, s.server())
	return t, err
}

func (t *churn) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	var logins *load.Logins
	spent, err := t.during(func() (err error) {
		logins, err = load.Churn{Application: "churn", Clients: t.Case.Clients, Span: t.Length}.Run(ctx, t.server())
		return err
	})
	if err != nil {
		return round, err
	}
	if logins.Answered == 0 {
		return round, errors.Join(errors.New("no login was answered"), logins.Err)
	}
	round = figures.Round{Others: spent.share.Others, Disturbed: !spent.share.Calm(), Sample: figures.Sample{
		figures.TPS:    float64(logins.Answered) / logins.Span.Seconds(),
		figures.Mean:   millis(logins.Latency.Mean()),
		figures.P50:    millis(logins.Latency.Quantile(0.5)),
		figures.P99:    millis(logins.Latency.Quantile(0.99)),
		figures.Errors: float64(logins.Begun - logins.Answered),
	}}
	if logins.Err != nil {
		round.Trouble = logins.Err.Error()
	}
	return round, t.add(round.Sample, spent, float64(logins.Answered))
}

func (t *churn) Close() error { return nil }

// storm lets many clients connect at once beside steady ones.
type storm struct {
	Setup
	steady *load.Group
}

func openStorm(ctx context.Context, s Setup) (Trial, error) {
	g, err := load.Dial(s.server(), load.Measured, load.Class{
		Application: "steady", Query: "select 1", Sessions: s.Case.Count("steady_sessions"),
	})
	if err != nil {
		return nil, err
	}
	t := &storm{s, g}
	if _, err := t.Round(ctx, -1); err != nil { // what many clients need is there
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (t *storm) Round(ctx context.Context, n int) (round figures.Round, err error) {
	var d *load.Disturbance
	spent, err := t.during(func() (err error) {
		d, err = load.StormBeside(
			ctx, uint64(2*(n+1)), t.steady, t.Case.Param("steady_rate"), t.Case.Span("quiet_s"), t.server(),
			load.Storm{Application: "storm", Clients: t.Case.Clients, Query: t.Case.Query, Limit: t.Case.Span("limit_s")},
		)
		return err
	})
	if err == nil {
		err = errors.Join(unexpected(d.Quiet), unexpected(d.During))
	}
	if err != nil {
		return round, err
	}
	l := d.Logins
	round = figures.Round{Others: spent.share.Others, Disturbed: !spent.share.Calm(), Sample: figures.Sample{
		figures.Alone:      millis(d.Quiet.Served.Quantile(0.99)),
		figures.Beside:     millis(d.During.Served.Quantile(0.99)),
		figures.Unanswered: float64(t.Case.Clients - l.Answered - l.Refused),
		figures.Errors:     float64(l.Refused),
		figures.LastLogin:  millis(l.Span),
		figures.TPS:        float64(l.Answered) / max(l.Span.Seconds(), 1e-9),
	}}
	if l.Err != nil {
		round.Trouble = l.Err.Error()
	}
	return round, nil
}

func (t *storm) Close() error {
	t.steady.Close()
	return nil
}
