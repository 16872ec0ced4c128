package difftest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"pgkinetic/internal/pgwire"
)

// Run plays the dialogue in a new session at the TCP address and returns what the server said at the login and afterwards,
// one line per message, with ParameterStatus messages sorted before the ReadyForQuery that they precede (their place among
// the others is free).
func (d *Dialogue) Run(address string) (login, transcript string, err error) {
	c, err := pgwire.Open("tcp", address)
	if err != nil {
		return "", "", err
	}
	defer c.Close()
	all, err := c.Login(0, d.startup()...)
	login = d.normalise(all)
	if err != nil {
		return login, "", err
	}
	var pending []byte
	for _, s := range d.Steps {
		if s.Message != nil {
			pending = append(pending, s.Message...)
			continue
		}
		answers, err := d.control(c, s, pending)
		pending = pending[:0]
		transcript += d.normalise(answers)
		if err != nil {
			return login, transcript, fmt.Errorf("line %d: %w", s.Line, err)
		}
	}
	return login, transcript, nil
}

func (d *Dialogue) startup() []string {
	return append([]string{"user", User, "database", "postgres"}, d.Params...)
}

// User is the role of all dialogues.
const User = "app"

// control writes what has gathered and reads what the step asks for. A server may close the connection (FATAL) before it
// has read everything: then the write fails, and what it said before is still there to be read.
func (d *Dialogue) control(c *pgwire.Conn, s Step, pending []byte) ([]pgwire.Message, error) {
	var sent error
	written := make(chan struct{})
	// Reading at the same time: a server that answers before it has read everything would else wait for us for ever.
	go func() {
		defer close(written)
		sent = d.write(c, pending)
	}()
	defer func() { <-written }()
	switch s.Read {
	case 0:
		<-written
		return nil, sent
	case readEnd:
		return c.ReadAll()
	}
	all, err := c.ReadUntil(s.Read, s.Count)
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
		return all, fmt.Errorf("the connection ended while %q was awaited", s.Read)
	}
	return all, err
}

func (d *Dialogue) write(c *pgwire.Conn, p []byte) error {
	if !d.Bytewise {
		return c.Send(p)
	}
	for i := range p {
		if err := c.Send(p[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// normalise gives the transcript with what may differ taken out.
func (d *Dialogue) normalise(all []pgwire.Message) string {
	var out, status []string
	for _, m := range all {
		switch {
		case m.Type == 'S':
			status = append(status, m.String())
			continue
		case m.Type == 'Z':
			slices.Sort(status)
			out = append(out, status...)
			status = nil
		case m.Type == 'E' && d.Lenient:
			e := pgwire.ErrorOf(m)
			out = append(out, "ErrorResponse "+e.Fields['V']+" "+e.Code())
			continue
		}
		out = append(out, m.String())
	}
	out = append(out, status...)
	if len(out) == 0 {
		return ""
	}
	return strings.Join(out, "\n") + "\n"
}

// Cut is a place at which the client vanishes: after Messages whole messages and, if Inside, half of the next one.
type Cut struct {
	Messages int
	Inside   bool
	Reset    bool // by a reset instead of an orderly end
}

// Cuts lists every edge between messages and one place inside each.
func (d *Dialogue) Cuts() []Cut {
	cuts := []Cut{{Messages: 0}}
	n := 0
	for _, s := range d.Steps {
		if s.Message == nil {
			continue
		}
		cuts = append(cuts, Cut{Messages: n, Inside: true, Reset: n%2 == 1}, Cut{Messages: n + 1, Reset: n%2 == 0})
		n++
	}
	return cuts[:len(cuts)-1] // the last one is the whole dialogue
}

// Large tells whether a message above 16 KiB is on its way, whole or in part, when the client vanishes: the pooler passes
// such a message on before it is complete, and then the backend cannot be saved.
func (d *Dialogue) Large(cut Cut) bool {
	n, large := 0, false
	for _, s := range d.Steps {
		switch {
		case s.Message == nil:
			large = large && s.Read == 0
		case n == cut.Messages:
			return large || cut.Inside && len(s.Message) > 16<<10
		default:
			large = large || len(s.Message) > 16<<10
			n++
		}
	}
	return large
}

// RunCut plays the dialogue up to the cut and vanishes without reading what is still to come.
func (d *Dialogue) RunCut(address string, cut Cut) error {
	c, err := pgwire.Open("tcp", address)
	if err != nil {
		return err
	}
	vanish := c.Close
	if cut.Reset {
		vanish = c.Reset
	}
	defer vanish()
	if _, err := c.Login(0, d.startup()...); err != nil {
		return fmt.Errorf("login: %w", err)
	}
	var pending []byte
	n := 0
	for _, s := range d.Steps {
		switch {
		case s.Message == nil:
			if _, err := d.control(c, s, pending); err != nil {
				return fmt.Errorf("line %d: %w", s.Line, err)
			}
			pending = pending[:0]
		case n < cut.Messages:
			pending = append(pending, s.Message...)
			n++
		default:
			if cut.Inside {
				pending = append(pending, s.Message[:len(s.Message)/2]...)
			}
			return ignoreVanished(c.Send(pending))
		}
	}
	return nil
}

// ignoreVanished: the server may have closed first, which is its right when the dialogue ends with FATAL.
func ignoreVanished(err error) error {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
