package engine

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// What goes over a bridge comes out as it went in, whatever the pieces, and neither
// side ever holds more than the bound.
func TestBridge(t *testing.T) {
	t.Parallel()
	woken := make(chan struct{}, 1)
	b := newBridge(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	sent := make([]byte, 1<<20)
	for i := range sent {
		sent[i] = byte(rand.Uint32())
	}
	go func() { // the session echoes
		buf := make([]byte, 7000)
		for {
			n, err := b.Read(buf)
			if err != nil {
				return
			}
			if n > 0 && buf[0]&1 == 0 { // in two pieces, now and then
				_, _ = b.Write(buf[:n/2])
				_, err = b.Write(buf[n/2 : n])
			} else {
				_, err = b.Write(buf[:n])
			}
			if err != nil {
				t.Errorf("write: %v", err)
			}
		}
	}()
	var got []byte
	for left := sent; len(got) < len(sent); {
		n := min(len(left), 1+rand.IntN(2*bridgeBuffer))
		taken := b.offer(left[:n])
		left = left[taken:]
		before := len(got)
		b.turn()
		if got, _ = b.take(got); len(got) == before && (len(left) == 0 || taken < n) {
			<-woken
		}
	}
	if !bytes.Equal(got, sent) {
		t.Error("it came out otherwise")
	}
	b.cut()
	if n, err := b.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("read behind the end: %d, %v", n, err)
	}
	if b.peak > bridgeBuffer {
		t.Errorf("%d bytes held, the bound is %d", b.peak, bridgeBuffer)
	}
}

// A session that waits for its client to take its output ends with the client.
func TestBridgeCut(t *testing.T) {
	t.Parallel()
	var wakes atomic.Int32 // one only, since the loop takes no turn
	b := newBridge(func() { wakes.Add(1) })
	done := make(chan error)
	go func() {
		_, err := b.Write(make([]byte, 3*bridgeBuffer))
		done <- err
	}()
	for wakes.Load() == 0 {
		select {
		case err := <-done:
			t.Fatalf("ended: %v", err)
		default:
		}
	}
	b.cut()
	if err := <-done; err == nil {
		t.Error("it says that all was written")
	}
	b.end()
	if n := wakes.Load(); n != 1 {
		t.Errorf("the loop is woken %d times", n)
	}
	if _, over := b.take(nil); !over {
		t.Error("the end is not seen")
	}
}
