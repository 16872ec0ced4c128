package load

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

// result is a query's answer of many rows.
func result(rows, size int) []byte {
	row := pgmock.DataRow(strings.Repeat("x", size))
	return append(bytes.Repeat(row, rows), append(pgmock.Complete("SELECT"), ready...)...)
}

// always answers every Query alike.
func always(answer []byte) pgmock.Step {
	return func(c *pgmock.Conn) error {
		for {
			m, err := c.Read()
			if err != nil {
				return err
			}
			if m.Type == 'X' {
				return nil
			}
			if err := pgmock.Send(answer)(c); err != nil {
				return err
			}
		}
	}
}

func TestStreamOfResults(t *testing.T) {
	answer := result(500, 1000)
	s := mocked(pgmock.Start(t, pgmock.Login(), always(answer)))
	got, err := Stream{Sessions: 3, Query: "large", Requests: 4}.Run(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	if got.Served != 12 || got.Rows != 12*500 || got.Received != int64(12*len(answer)) || got.Failed+got.Unanswered != 0 {
		t.Errorf("flow %+v", figures(got))
	}
	if got.Latency.Count() != 12 || got.PerSecond() <= 0 {
		t.Errorf("%d latencies, %v bytes/s", got.Latency.Count(), got.PerSecond())
	}
	got, err = Stream{Sessions: 2, Query: "large", Span: 20 * time.Millisecond}.Run(context.Background(), s)
	if err != nil || got.Served < 2 || got.Rows != int64(got.Served)*500 {
		t.Errorf("for a time: %+v, %v", figures(got), err)
	}
	if _, err := (Stream{Sessions: 1}).Run(context.Background(), s); err == nil {
		t.Error("a stream without end")
	}
}

func TestSlowReaders(t *testing.T) {
	// 40 KB at 200 KB/s take 0.2 s; at the rate of the second run they would take an hour, were it not for the span.
	s := mocked(pgmock.Start(t, pgmock.Login(), always(result(40, 1000))))
	got, err := Stream{Sessions: 2, Query: "large", Requests: 1, Rate: 200_000}.Run(context.Background(), s)
	if err != nil || got.Served != 2 || got.Rows != 80 || got.Span < 150*time.Millisecond {
		t.Errorf("flow %+v, %v", figures(got), err)
	}
	got, err = Stream{Sessions: 2, Query: "large", Rate: 10, Span: 50 * time.Millisecond}.Run(context.Background(), s)
	if err != nil || got.Served != 2 || got.Rows != 80 || got.Span < 50*time.Millisecond {
		t.Errorf("flow %+v, %v", figures(got), err)
	}
}

// copyServer takes COPY data until CopyDone, and counts the bodies' bytes; answer is sent after that, or, with an error in
// it, after the first message.
func copyServer(t *testing.T, taken *atomic.Int64, early bool, answer ...[]byte) Server {
	t.Helper()
	return mocked(pgmock.Start(t, pgmock.Login(), func(c *pgmock.Conn) error {
		for {
			if q, err := c.Read(); err != nil || q.Type != 'Q' {
				return errors.Join(err, io.EOF)
			}
			if err := pgmock.Send(pgwire.Raw('G', []byte{0, 0, 1, 0, 0}))(c); err != nil {
				return err
			}
			if err := takeInput(c, taken, early, answer); err != nil {
				return err
			}
			if err := pgmock.Send(answer...)(c); err != nil {
				return err
			}
		}
	}))
}

// takeInput reads up to CopyDone.
func takeInput(c *pgmock.Conn, taken *atomic.Int64, early bool, answer [][]byte) error {
	for {
		m, err := c.Read()
		if err != nil || m.Type == 'c' {
			return err
		}
		if taken.Add(int64(len(m.Body))); early {
			if err := pgmock.Send(answer...)(c); err != nil {
				return err
			}
			early = false
		}
	}
}

func TestCopyIn(t *testing.T) {
	var taken atomic.Int64
	input := []byte(strings.Repeat("1\tabc\n", 100))
	s := copyServer(t, &taken, false, pgmock.Complete("COPY 1"), ready)
	got, err := Stream{Sessions: 2, Query: "copy", Requests: 3, Input: input, InputBytes: 5 << 20}.Run(context.Background(), s)
	if err != nil || got.Served != 6 || got.Failed != 0 {
		t.Fatalf("flow %+v, %v", figures(got), err)
	}
	if got.Sent != taken.Load() || got.Sent < 6*5<<20 || got.Sent > 6*(5<<20+inputBatch) {
		t.Errorf("%d bytes sent, the server took %d", got.Sent, taken.Load())
	}
	if got, err := (Stream{Sessions: 1, Query: "copy", Requests: 1}).Run(context.Background(), s); err == nil {
		t.Errorf("COPY without data: %+v", figures(got))
	}
}

func TestCopyThatFails(t *testing.T) {
	var taken atomic.Int64
	s := copyServer(t, &taken, true, pgmock.Error("ERROR", "22P02", "no number"), ready)
	got, err := Stream{Sessions: 1, Query: "copy", Requests: 1, Input: []byte("x\n"), InputBytes: 64 << 20}.Run(context.Background(), s)
	if err != nil || got.Failed != 1 || got.Served != 0 || got.Unanswered != 0 || got.Err == nil {
		t.Errorf("flow %+v, %v", figures(got), err)
	}
}

func TestStreamThatIsLost(t *testing.T) {
	s := mocked(pgmock.Start(t, pgmock.Login(), pgmock.Expect('Q'), pgmock.Send(row)))
	got, err := Stream{Sessions: 3, Query: "large", Requests: 1}.Run(context.Background(), s)
	if err != nil || got.Failed != 3 || got.Unanswered != 0 || !errors.Is(got.Err, errClosed) {
		t.Errorf("flow %+v, %v", figures(got), err)
	}
	if _, err := (Stream{Sessions: 1, Query: "q", Requests: 1}).Run(context.Background(), Server{Network: "pipe"}); err == nil {
		t.Error("no server")
	}
}

// figures is a Flow without its histogram.
func figures(f *Flow) map[string]any {
	return map[string]any{
		"served": f.Served, "failed": f.Failed, "unanswered": f.Unanswered, "received": f.Received, "sent": f.Sent,
		"rows": f.Rows, "span": f.Span, "codes": f.Codes, "error": f.Err,
	}
}
