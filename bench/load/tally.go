package load

import (
	"slices"
	"time"

	"pgkinetic/internal/pgwire"
)

// Tally is what became of the requests of one class in one run. Latencies count from the time at which the request was due,
// so that one that the generator sends late, because all sessions wait for answers, is not counted as fast.
type Tally struct {
	Span    time.Duration // of the schedule; in a closed loop until the last answer
	Served  Histogram     // latencies of the requests that got what they asked for
	Refused Histogram     // latencies of those that got one of the class's refusals
	Late    Histogram     // open loop: how long after their time requests were sent
	Within  int           // served before the span had ended
	Failed  int           // got another error, or none because the session ended
	Lost    int           // sessions that ended
	Codes   []Code        // the SQLSTATEs of all errors
	Gap     time.Duration // open loop: the longest time within the span without a refusal
	Err     error         // of the first request that failed, or of the first session that was lost

	refusals    []string
	begin, last int64 // ns on the run's clock: of the span, and of the last refusal in it
}

// Code is how often an SQLSTATE came.
type Code struct {
	SQLState string
	Count    int
}

// Goodput is how many requests a second were served within the span.
func (t *Tally) Goodput() float64 { return float64(t.Within) / max(t.Span.Seconds(), 1e-9) }

// Add makes one tally of two: of rounds of the same load, one after the other.
func (t *Tally) Add(other *Tally) {
	t.Span += other.Span
	t.Served.Add(&other.Served)
	t.Refused.Add(&other.Refused)
	t.Late.Add(&other.Late)
	t.Within += other.Within
	t.Failed += other.Failed
	t.Lost += other.Lost
	t.Gap = max(t.Gap, other.Gap)
	for _, c := range other.Codes {
		t.Codes = count(t.Codes, c.SQLState, c.Count)
	}
	if t.Err == nil {
		t.Err = other.Err
	}
}

// count adds n to the count of an SQLSTATE; there are never more than a few.
func count(codes []Code, state string, n int) []Code {
	for i := range codes {
		if codes[i].SQLState == state {
			codes[i].Count += n
			return codes
		}
	}
	return append(codes, Code{state, n})
}

// answered enters the answer to a request that was due at a time and has no error, or the error with that body.
func (t *Tally) answered(due, now int64, failure []byte) {
	latency := time.Duration(now - due)
	if len(failure) == 0 {
		t.Served.Record(latency)
		if now < t.begin+int64(t.Span) {
			t.Within++
		}
		return
	}
	state := sqlState(failure)
	t.Codes = count(t.Codes, state, 1)
	if !slices.Contains(t.refusals, state) {
		t.failed(errorOf(failure))
		return
	}
	t.Refused.Record(latency)
	t.refusedAt(now)
}

// refusedAt keeps the longest gap between refusals; the end of the span is entered like one.
func (t *Tally) refusedAt(now int64) {
	now = min(now, t.begin+int64(t.Span))
	t.Gap = max(t.Gap, time.Duration(now-t.last))
	t.last = max(t.last, now)
}

func (t *Tally) failed(err error) {
	t.Failed++
	t.note(err)
}

func (t *Tally) note(err error) {
	if t.Err == nil {
		t.Err = err
	}
}

// sqlState is the field C of an ErrorResponse's body; "" without one.
func sqlState(body []byte) string {
	for len(body) > 1 {
		letter := body[0]
		end := slices.Index(body, 0)
		if end < 0 {
			return ""
		}
		if letter == 'C' {
			return string(body[1:end])
		}
		body = body[end+1:]
	}
	return ""
}

func errorOf(body []byte) error { return pgwire.ErrorOf(pgwire.Message{Type: 'E', Body: body}) }
