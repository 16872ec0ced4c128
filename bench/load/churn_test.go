package load

import (
	"context"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

func TestChurn(t *testing.T) {
	mock := serving(t)
	for _, c := range []Churn{
		{Clients: 3, Logins: 20},
		{Clients: 3, Logins: 20, Query: "select 1", Queries: 2},
		{Clients: 3, Logins: 20, Query: "select 1", Queries: 2, Abandon: true},
	} {
		before := mock.Logins()
		got, err := c.Run(context.Background(), mocked(mock))
		if err != nil {
			t.Fatal(err)
		}
		if n := mock.Logins() - before; got.Answered != 20 || got.Begun != 20 || n != 20 || got.PerSecond() <= 0 || got.Unanswered != 0 {
			t.Errorf("%+v: %+v, the server saw %d", c, counts(got), n)
		}
	}
	if got, err := (Churn{Clients: 2, Span: 10 * time.Millisecond}).Run(context.Background(), mocked(mock)); err != nil || got.Answered < 2 {
		t.Errorf("for a time: %+v, %v", counts(got), err)
	}
	if _, err := (Churn{Clients: 2}).Run(context.Background(), mocked(mock)); err == nil {
		t.Error("a churn without end")
	}
}

// TestChurnSends holds what a client says against what it should: its queries one by one, and its good-bye if it has one.
func TestChurnSends(t *testing.T) {
	for _, abandon := range []bool{false, true} {
		steps := []pgmock.Step{pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(ready), pgmock.Expect('Q')}
		if !abandon {
			steps = append(steps, pgmock.Send(ready), pgmock.Expect('X'))
		}
		ended := make(chan error, 1)
		steps = append(steps, func(c *pgmock.Conn) error {
			_, err := c.Read()
			ended <- err
			return err
		})
		churn := Churn{Clients: 1, Logins: 1, Query: "q", Queries: 2, Abandon: abandon}
		if _, err := churn.Run(context.Background(), mocked(pgmock.Start(t, steps...))); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err == nil {
			t.Errorf("abandon %v: something came after the end", abandon)
		}
	}
}

func TestChurnOfRefusals(t *testing.T) {
	refuse := pgmock.Start(t, pgmock.Startup(), pgmock.Send(pgmock.Error("FATAL", "53300", "full")))
	got, err := Churn{Clients: 2, Logins: 10}.Run(context.Background(), mocked(refuse))
	if err != nil || got.Refused != 10 || got.Err == nil {
		t.Errorf("%+v, %v", counts(got), err)
	}
	refuse.Script(pgmock.Startup(), pgmock.Send(pgwire.Raw('R', nil)))
	if got, err = (Churn{Clients: 2, Logins: 10}).Run(context.Background(), mocked(refuse)); err != nil || got.Failed != 10 {
		t.Errorf("%+v, %v", counts(got), err)
	}
}

// TestChurnWithoutAServer: connections that fail at once neither end a churn nor keep it from ending.
func TestChurnWithoutAServer(t *testing.T) {
	gone := pgmock.Start(t)
	gone.Down()
	got, err := Churn{Clients: 3, Span: 20 * time.Millisecond}.Run(context.Background(), mocked(gone))
	if err != nil || got.Failed < 3 || got.Begun != got.Failed || got.Span < 10*time.Millisecond {
		t.Errorf("%+v, %v", counts(got), err)
	}
}
