package trials

import (
	"context"
	"errors"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
)

// silent has a few clients log in again and again, alone and then beside many sockets that are silent in a TLS handshake.
type silent struct{ Setup }

func openSilent(_ context.Context, s Setup) (Trial, error) {
	if !s.Target.ClientTLS() {
		return nil, errors.New("silent handshakes need a target with TLS")
	}
	return &silent{s}, nil
}

func (t *silent) Round(ctx context.Context, _ int) (round figures.Round, err error) {
	var alone, beside *load.Logins
	var held *load.Silent
	spent, err := t.during(func() (err error) {
		if alone, err = t.logins(ctx); err != nil {
			return err
		}
		if held, err = load.NewSilent(ctx, t.server(), t.Case.Clients); err != nil {
			return err
		}
		defer held.Close()
		select {
		case <-time.After(t.Case.Span("settle_s")):
		case <-ctx.Done():
			return ctx.Err()
		}
		beside, err = t.logins(ctx)
		return err
	})
	if err != nil {
		return round, err
	}
	round = figures.Round{Others: spent.share.Others, Disturbed: !spent.share.Calm(), Sample: figures.Sample{
		figures.LoginAlone:  millis(alone.Latency.Quantile(0.5)),
		figures.LoginBeside: millis(beside.Latency.Quantile(0.5)),
		figures.TurnedAway:  float64(held.TurnedAway),
		figures.Errors:      float64(alone.Begun - alone.Answered + beside.Begun - beside.Answered),
	}}
	if err := errors.Join(alone.Err, beside.Err); err != nil {
		round.Trouble = err.Error()
	}
	return round, nil
}

// logins are those of clients whose logins are to be good.
func (t *silent) logins(ctx context.Context) (*load.Logins, error) {
	return load.Churn{Application: "good", Clients: t.Case.Count("logins"), Span: t.Length}.Run(ctx, t.server())
}

func (t *silent) Close() error { return nil }
