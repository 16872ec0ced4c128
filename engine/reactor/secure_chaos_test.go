package reactor

import (
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
)

// chaosEcho is an echo that closes when its handshake fails, and tells when it has.
type chaosEcho struct{ echo }

func (e *chaosEcho) OnSecured(s *Socket, err error) {
	if err != nil {
		s.Close()
		e.closed()
	}
}

// TestSecureChaos: peers of every kind at once, on one loop and on two: honest
// ones, such as vanish at any time, strangers, and owners that close at any time.
// Everybody is told the truth, and nothing is left.
func TestSecureChaos(t *testing.T) {
	for _, count := range []int{1, 2} {
		t.Run(fmt.Sprint(count, " loops"), func(t *testing.T) {
			var loops []*Loop
			for range count {
				loops = append(loops, startLoop(t))
			}
			helpers := testHelpers(t)
			before := runtime.NumGoroutine()
			var peers sync.WaitGroup
			for seed := range 8 {
				peers.Go(func() {
					random := rand.New(rand.NewPCG(uint64(seed), 1))
					for range 15 {
						chaosPeer(t, loops[random.IntN(count)], helpers, random)
					}
				})
			}
			peers.Wait()
			awaitGoroutines(t, before)
			for _, l := range loops {
				on(t, l, func() {
					if l.Sockets() != 0 {
						t.Errorf("%d sockets are left", l.Sockets())
					}
				})
			}
			if n := BufferBytes(); n != 0 {
				t.Errorf("%d buffer bytes in use", n)
			}
		})
	}
}

func chaosPeer(t *testing.T, l *Loop, helpers *Helpers, random *rand.Rand) {
	c := secureCases[random.IntN(len(secureCases))]
	ours, theirs := c.configs()
	fd, conn := pair(t, c.network)
	closed := make(chan struct{})
	e := &chaosEcho{echo{limit: 20 << 10, closed: func() { close(closed) }}}
	<-begin(l, func() {
		fatal(t, l.Add(&e.Socket, fd, c.network == "unix", e))
		e.Secure(Security{Config: ours, Client: c.client, Helpers: helpers})
	})
	limit := 1 << 40 // bytes after which the peer vanishes
	stranger, dropped := random.IntN(8) == 0, random.IntN(4) == 0
	if random.IntN(2) == 0 {
		limit = random.IntN([]int{300, 3000, 100_000}[random.IntN(3)])
	}
	if stranger {
		p := make([]byte, random.IntN(3000))
		for i := range p {
			p[i] = byte(random.Uint32())
		}
		_, _ = conn.Write(p)
	}
	if dropped {
		go func(wait int) {
			for range wait {
				runtime.Gosched()
			}
			<-begin(l, func() {
				if e.Alive() {
					e.out.Release(l)
					e.Close()
					e.closed()
				}
			})
		}(random.IntN(3000))
	}
	err := chaosEchoes(c.peer(&tap{conn, func(p []byte) (int, error) {
		if limit -= len(p); limit < 0 {
			_ = conn.Close()
			return 0, io.ErrClosedPipe
		}
		return conn.Write(p)
	}}, theirs), random)
	if err != nil && limit >= 0 && !stranger && !dropped {
		t.Errorf("%v: %v", c, err)
	}
	_ = conn.Close()
	await(t, closed, "the end of the echo")
}

// chaosEchoes sends pieces to the echo and compares.
func chaosEchoes(peer *tls.Conn, random *rand.Rand) error {
	for range random.IntN(6) {
		size := random.IntN([]int{100, 5000, 200_000}[random.IntN(3)])
		sent := make(chan error, 1)
		p, got := make([]byte, size), make([]byte, size)
		pattern(p, random.IntN(1000))
		go func() {
			_, err := peer.Write(p)
			sent <- err
		}()
		_, err := io.ReadFull(peer, got)
		if err != nil {
			_ = peer.NetConn().Close()
		}
		if wrote := <-sent; wrote != nil {
			return wrote
		}
		if err != nil {
			return err
		}
		if string(got) != string(p) {
			return fmt.Errorf("%d bytes came back changed", size)
		}
	}
	return nil
}
