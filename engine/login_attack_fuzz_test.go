package engine_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"pgkinetic/internal/pgwire"
)

// FuzzLogin: any bytes before a login, in clear or inside TLS, in one write or in two. Nothing lets in, and all end.
func FuzzLogin(f *testing.F) {
	for _, piece := range pieces(f) {
		if len(piece) < 300 {
			f.Add(piece, uint8(len(piece)/2), false)
			f.Add(piece, uint8(0), true)
		}
	}
	f.Add(slices.Concat(pgwire.Startup(0, "user", "scram_user"), saslInitial("SCRAM-SHA-256", saslFirst)), uint8(40), true)
	at := besiege(f)
	f.Fuzz(func(t *testing.T, p []byte, cut uint8, secure bool) {
		s := at.stranger(t)
		if secure {
			s.secure()
		}
		n := min(int(cut), len(p))
		s.say(p[:n])
		s.say(p[n:])
		s.noMore()
		s.ends()
		must(t, s.tcp.Close())
	})
}

// TestLoginChaos: strangers send valid pieces in random order, cut, repeated and spoilt, and some hang up, while users come
// and go; at the end nobody is left.
func TestLoginChaos(t *testing.T) {
	t.Parallel()
	f := besiege(t)
	var valid [][]byte
	for _, piece := range pieces(t) {
		valid = append(valid, piece)
	}
	valid = append(valid, pgwire.Startup(0, "user", "scram_user"), pgwire.Startup(2, "user", "password_user", "_pq_.x", "1"),
		saslInitial("SCRAM-SHA-256", saslFirst), pgwire.Raw('p', []byte("md5"+string(make([]byte, 32)))))
	slices.SortFunc(valid, slices.Compare) // the order of a map is none
	end := time.Now().Add(3 * time.Second)
	var all sync.WaitGroup
	for seed := range uint64(8) {
		all.Go(func() {
			random := rand.New(rand.NewPCG(seed, 1))
			for time.Now().Before(end) {
				s := f.stranger(t)
				switch random.IntN(3) {
				case 0:
					s.secure()
				case 1:
					s.askTLS()
				}
				for range random.IntN(4) {
					p := slices.Clone(valid[random.IntN(len(valid))])
					if len(p) > 0 && random.IntN(4) == 0 {
						p[random.IntN(len(p))] ^= byte(1 << random.IntN(8))
					}
					if random.IntN(4) == 0 {
						p = p[:random.IntN(len(p)+1)]
					}
					s.say(p)
				}
				if random.IntN(2) == 0 {
					s.noMore()
					s.ends()
				}
				_ = s.tcp.Close()
			}
		})
	}
	for time.Now().Before(end) {
		f.open(t, "plain_user", "sslmode=require")
	}
	all.Wait()
	f.empty(t)
}
