package engine_test

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"pgkinetic/engine"
	"pgkinetic/internal/difftest"
	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgwire"
)

// offsets bounds how often a dialogue is played in each of the three tests: one that is no longer is cut at every offset, a
// longer one at every k-th from a random first one, and about the ends of its large messages at every one.
var offsets = flag.Int("offsets", 48, "how many offsets of each dialogue are tried, about; 0: all")

// edge is how many offsets before and behind the end of a large message are all tried.
const edge = 7

// stage is an engine of one loop with one backend, a scripted PostgreSQL that plays one recording.
type stage struct {
	t        *testing.T
	dialogue *difftest.Dialogue
	rec      pgmock.Recording
	want     []byte // all that the client gets
	mock     *pgmock.Server
	replay   *pgmock.Replay
	e        *engine.Engine
	address  string
	nonces   int
}

// onStages runs test for each recorded dialogue, on a stage of its own.
func onStages(t *testing.T, test func(*stage)) {
	recordings, dialogues := recorded(t)
	for _, name := range recordedNames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stage{t: t, dialogue: dialogues[name], rec: recordings[name], replay: &pgmock.Replay{}}
			s.want = s.rec.Answers()
			s.mock = pgmock.Start(t, pgmock.Login(), s.replay.Serve())
			s.e, s.address = startAt(t, s.mock.Addr(), "--capacity.pool-max-size=1", "--server.loops=1", "--capacity.checkout-timeout-ms=20000")
			s.replay.Taken = func() error {
				return spin("the server's bytes taken", func() bool { return s.e.Totals().BytesFromServers >= uint64(s.mock.Written()) })
			}
			test(s)
		})
	}
}

// spin is until for what comes within microseconds, many times.
func spin(what string, condition func() bool) error {
	end := time.Now().Add(patience)
	for i := 0; !condition(); i++ {
		if i < 4 {
			runtime.Gosched()
			continue
		}
		time.Sleep(50 * time.Microsecond)
		if time.Now().After(end) {
			return fmt.Errorf("not within %v: %s", patience, what)
		}
	}
	return nil
}

// enter waits until nobody is there and opens a session.
func (s *stage) enter(application string) (*pgwire.Conn, error) {
	if err := spin("nobody there", func() bool { return s.e.Totals().Clients == 0 }); err != nil {
		return nil, err
	}
	c, err := pgwire.Open("tcp", s.address)
	if err != nil {
		return nil, err
	}
	_, err = c.Login(0, "user", "postgres", "database", "postgres", "application_name", application)
	return c, err
}

// act plays the dialogue. Behind stop bytes of what the client sends (0: none) it calls at, which ends the play if it says
// so. It returns all that the client got.
func (s *stage) act(c *pgwire.Conn, stop int, at func() (goOn bool)) (got []byte, err error) {
	var pending []byte
	sent := 0
	for _, step := range s.dialogue.Steps {
		if step.Message != nil {
			pending = append(pending, step.Message...)
			continue
		}
		if k := stop - sent; stop > 0 && k > 0 && k <= len(pending) {
			if err := c.Send(pending[:k]); err != nil {
				return got, err
			}
			if !at() {
				return got, nil
			}
			sent += k
			pending = pending[k:]
		}
		if err := c.Send(pending); err != nil {
			return got, err
		}
		sent += len(pending)
		pending = pending[:0]
		var all []pgwire.Message
		switch {
		case step.Count > 0:
			all, err = c.ReadUntil(step.Read, step.Count)
		case step.Read != 0:
			all, err = c.ReadAll()
		}
		for _, m := range all {
			got = append(got, pgwire.Raw(m.Type, m.Body)...)
		}
		if err != nil {
			return got, err
		}
	}
	return got, nil
}

// wanted is what the client of this name is to get: a RESET takes it back to that name, the recorded client to none.
func (s *stage) wanted(application string) []byte {
	status := func(value string) []byte { return pgwire.Raw('S', []byte("application_name\x00"+value+"\x00")) }
	return bytes.ReplaceAll(s.want, status(""), status(application))
}

// whole plays the dialogue to its end, the client's bytes cut at one place and the server's at another.
func (s *stage) whole(clientCut, serverCut int) error {
	c, err := s.enter("whole")
	if err != nil {
		return err
	}
	defer c.Close()
	s.replay.Begin(s.rec, serverCut)
	before := s.e.Totals().BytesFromClients
	var taken error
	got, err := s.act(c, clientCut, func() bool {
		taken = spin("the client's bytes taken", func() bool { return s.e.Totals().BytesFromClients >= before+uint64(clientCut) })
		return true
	})
	switch {
	case err != nil:
		return fmt.Errorf("%w; got %q", err, got)
	case taken != nil:
		return taken
	case !bytes.Equal(got, s.wanted("whole")):
		return fmt.Errorf("the client got\n%q, want\n%q", got, s.wanted("whole"))
	case s.replay.Rest() != nil:
		return fmt.Errorf("the server was not sent %.100q", s.replay.Rest())
	case s.mock.Logins() != 1 || s.mock.Cancels() > 0:
		return fmt.Errorf("%d logins, %d cancels", s.mock.Logins(), s.mock.Cancels())
	}
	return nil
}

// cuts chooses offsets inside n bytes; all those about the edges are among them.
func (s *stage) cuts(n int, edges []int) []int {
	chosen := map[int]bool{}
	every := 1
	if *offsets > 0 {
		every += n / *offsets
	}
	for k := 1 + rand.IntN(every); k < n; k += every {
		chosen[k] = true
	}
	for _, at := range edges {
		for k := at - edge; k <= at+edge; k++ {
			chosen[k] = k > 0 && k < n
		}
	}
	var all []int
	for k := range n {
		if chosen[k] {
			all = append(all, k)
		}
	}
	return all
}

// stream is the number of bytes that the client sends, and where its large messages begin and end.
func (s *stage) stream() (n int, edges []int) {
	for _, x := range s.rec {
		if len(x.Sent) > pgmock.SmallMessage {
			edges = append(edges, n, n+len(x.Sent))
		}
		n += len(x.Sent)
	}
	return n, edges
}

// TestClientCutAtEveryOffset: wherever the client's bytes are cut into two packets, the client gets byte for byte what
// PostgreSQL answers.
func TestClientCutAtEveryOffset(t *testing.T) {
	t.Parallel()
	onStages(t, func(s *stage) {
		n, edges := s.stream()
		for _, k := range s.cuts(n, edges) {
			if err := s.whole(k, 0); err != nil {
				s.t.Fatalf("cut at %d of %d: %v", k, n, err)
			}
		}
		if err := s.next(); err != nil {
			s.t.Fatalf("the next client: %v", err)
		}
	})
}

// TestServerCutAtEveryOffset is the same for what PostgreSQL sends, the answers to settings and clean-up included.
func TestServerCutAtEveryOffset(t *testing.T) {
	t.Parallel()
	onStages(t, func(s *stage) {
		for range 2 { // the second time it begins as all that follow
			if err := s.whole(0, 0); err != nil {
				s.t.Fatal(err)
			}
		}
		n := s.replay.Sent()
		for _, k := range s.cuts(n, nil) {
			if err := s.whole(0, k); err != nil {
				s.t.Fatalf("cut at %d of %d: %v", k, n, err)
			}
		}
		if err := s.next(); err != nil {
			s.t.Fatalf("the next client: %v", err)
		}
	})
}

// TestResetAtEveryOffset: wherever a client leaves, the next one of the same backend gets its own answers, PostgreSQL has
// never seen half a small message, and a new login only where half a large one had been passed on.
func TestResetAtEveryOffset(t *testing.T) {
	t.Parallel()
	onStages(t, func(s *stage) {
		n, edges := s.stream()
		for i, k := range s.cuts(n, edges) {
			if err := s.leave(k, i%3); err != nil {
				s.t.Fatalf("client left at %d of %d: %v", k, n, err)
			}
			if err := s.next(); err != nil {
				s.t.Fatalf("the next client after one that left at %d of %d: %v", k, n, err)
			}
			if logins, halves := s.mock.Logins(), s.replay.Halves(); logins > 1+halves {
				s.t.Fatalf("client left at %d of %d: %d logins, %d sessions ended inside a large message", k, n, logins, halves)
			}
		}
	})
}

// How a client leaves.
const (
	resetOnceTaken = iota
	resetAtOnce
	closeAtOnce
)

// leave plays the dialogue up to an offset.
func (s *stage) leave(offset, how int) error {
	c, err := s.enter("first")
	if err != nil {
		return err
	}
	s.replay.Begin(s.rec, 0)
	before := s.e.Totals().BytesFromClients
	var taken error
	_, err = s.act(c, offset, func() bool {
		if how == resetOnceTaken {
			taken = spin("the client's bytes taken", func() bool { return s.e.Totals().BytesFromClients >= before+uint64(offset) })
		}
		return false
	})
	if how == closeAtOnce {
		c.Close()
	} else {
		c.Reset()
	}
	if err != nil {
		return err
	}
	return taken
}

// next is another client, with other settings, that must get its own answers.
func (s *stage) next() error {
	c, err := s.enter("next")
	if err != nil {
		return err
	}
	defer c.Close()
	for _, message := range []func(string) []byte{pgmock.NonceGroup, pgmock.Nonce} {
		s.nonces++
		nonce := fmt.Sprint(s.nonces)
		if err := c.Send(message(nonce)); err != nil {
			return err
		}
		all, err := c.ReadUntil('Z', 1)
		if err != nil {
			return fmt.Errorf("%w; got %s", err, pgwire.Transcript(all))
		}
		var rows []string
		for _, m := range all {
			if m.Type == 'D' {
				rows = append(rows, pgwire.Values(m)...)
			}
		}
		if len(rows) != 1 || rows[0] != nonce || typesOf(all[len(all)-2:]) != "CZI" {
			return fmt.Errorf("nonce %s: got %s", nonce, pgwire.Transcript(all))
		}
	}
	return nil
}

func recorded(t *testing.T) (map[string]pgmock.Recording, map[string]*difftest.Dialogue) {
	t.Helper()
	dialogues := dialoguesByName(t)
	text, err := os.ReadFile(recordedFile)
	if err != nil {
		t.Fatal(err)
	}
	recordings, err := pgmock.ParseRecordings(string(text), func(name string) [][]byte { return messagesOf(dialogues[name]) })
	if err != nil {
		t.Fatalf("%v; after a change of the dialogues record them anew: go test ./engine -run RecordDialogues -record", err)
	}
	for _, name := range recordedNames {
		if recordings[name] == nil {
			t.Fatalf("%s is not recorded", name)
		}
	}
	return recordings, dialogues
}

func dialoguesByName(t *testing.T) map[string]*difftest.Dialogue {
	t.Helper()
	all, err := difftest.Load("../internal/difftest/testdata")
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]*difftest.Dialogue{}
	for _, d := range all {
		byName[d.Name] = d
	}
	return byName
}

func messagesOf(d *difftest.Dialogue) (all [][]byte) {
	if d == nil {
		return nil
	}
	for _, step := range d.Steps {
		if step.Message != nil {
			all = append(all, step.Message)
		}
	}
	return all
}
