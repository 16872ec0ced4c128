package load

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"pgkinetic/internal/pgmock"
)

func runStorm(t *testing.T, mock *pgmock.Server, o Storm) *Logins {
	t.Helper()
	got, err := o.Run(context.Background(), mocked(mock))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestStorm(t *testing.T) {
	mock := serving(t)
	for _, query := range []string{"", "select 1"} {
		got := runStorm(t, mock, Storm{Clients: 200, Query: query, Limit: time.Minute})
		if got.Answered != 200 || got.Begun != 200 || got.Refused+got.Failed+got.Unanswered != 0 || got.Err != nil {
			t.Errorf("storm %+v", counts(got))
		}
		if got.Latency.Count() != 200 || got.Span != got.Latency.Max() || got.CPU <= 0 {
			t.Errorf("%d latencies up to %v, the last answer at %v", got.Latency.Count(), got.Latency.Max(), got.Span)
		}
	}
}

func TestStormOfRefusals(t *testing.T) {
	refuse := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "53300", "full")))
	got := runStorm(t, refuse, Storm{Clients: 20, Limit: time.Minute})
	if got.Refused != 20 || got.Answered != 0 || !slices.Equal(got.Codes, []Code{{"53300", 20}}) {
		t.Errorf("refused: %+v", counts(got))
	}
	inQuery := pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(full, ready), pgmock.Hang())
	if got = runStorm(t, inQuery, Storm{Clients: 20, Query: "q", Limit: time.Minute}); got.Refused != 20 {
		t.Errorf("refused later: %+v", counts(got))
	}
	gone := pgmock.Start(t)
	gone.Down()
	got = runStorm(t, gone, Storm{Clients: 20, Limit: time.Minute})
	if got.Failed != 20 || !errors.Is(got.Err, unix.ECONNREFUSED) {
		t.Errorf("without a server: %+v", counts(got))
	}
}

func TestStormEndsAtItsLimit(t *testing.T) {
	silent := pgmock.Start(t, pgmock.Startup(), pgmock.Hang())
	got := runStorm(t, silent, Storm{Clients: 20, Limit: 100 * time.Millisecond})
	if got.Begun != 20 || got.Unanswered != 20 {
		t.Errorf("of a silent server: %+v", counts(got))
	}
}

func TestStormBesideSteadyClients(t *testing.T) {
	s := mocked(serving(t))
	steady := dial(t, s, Class{Query: "select 1", Sessions: 4})
	got, err := StormBeside(context.Background(), 1, steady, 1000, 50*time.Millisecond, s,
		Storm{Clients: 300, Query: "select 1", Limit: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	if got.Logins.Answered != 300 || got.Quiet.Served.Count() == 0 || got.During.Served.Count() == 0 || got.Ratio(0.99) <= 0 {
		t.Errorf("storm %+v, beside it %s and %s", counts(got.Logins), summary(got.Quiet), summary(got.During))
	}
	// The steady load ends with the storm, not with its own schedule; their clocks begin one after the other.
	if got.During.Span < got.Logins.Span/2 || got.During.Span > time.Minute {
		t.Errorf("%v of the steady load beside a storm of %v", got.During.Span, got.Logins.Span)
	}
}

func TestBeside(t *testing.T) {
	began, over := make(chan struct{}), errors.New("over")
	err := Beside(context.Background(), time.Millisecond, func(ctx context.Context) error {
		close(began)
		<-ctx.Done()
		return over
	}, func() error {
		<-began
		return errClosed
	})
	if !errors.Is(err, over) || !errors.Is(err, errClosed) {
		t.Errorf("got %v", err)
	}
}

// counts is Logins without its histogram.
func counts(l *Logins) map[string]any {
	return map[string]any{
		"begun": l.Begun, "answered": l.Answered, "refused": l.Refused, "failed": l.Failed, "unanswered": l.Unanswered,
		"codes": l.Codes, "error": l.Err, "span": l.Span,
	}
}
