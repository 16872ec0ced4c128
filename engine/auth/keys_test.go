package auth

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestKeysAreBounded: more users than there is room for, of whom those used last are
// remembered. The verifiers stand in for derived ones, which would take minutes.
func TestKeysAreBounded(t *testing.T) {
	keys := NewKeys()
	for i := range 3 * maxDerived {
		keys.derived.put(keys.id(fmt.Sprint(i), "p"), &verifier{})
		if n := keys.derived.len(); n > maxDerived {
			t.Fatalf("%d verifiers", n)
		}
	}
	if keys.known(fmt.Sprint(3*maxDerived-maxDerived/2), "p") == nil || keys.known("0", "p") != nil {
		t.Error("forgets what was used last, or keeps what was used first")
	}
}

// TestKeysOfOneUserAreNotAnothers: neither by name, nor by password, nor where one
// name goes on where the other's password does.
func TestKeysOfOneUserAreNotAnothers(t *testing.T) {
	keys := NewKeys()
	seen := map[key]bool{}
	for _, pair := range [][2]string{{"a", "b"}, {"ab", ""}, {"", "ab"}, {"a", "c"}, {"b", "a"}} {
		seen[keys.id(pair[0], pair[1])] = true
	}
	if len(seen) != 5 {
		t.Error("two users, one entry")
	}
	if bytes.Equal(keys.salt("a"), keys.salt("b")) {
		t.Error("two users, one salt")
	}
}

// TestManyFirstLoginsAtOnce: each that finds nothing derives, with the same result;
// whoever comes later finds it.
func TestManyFirstLoginsAtOnce(t *testing.T) {
	keys := NewKeys()
	var wg sync.WaitGroup
	outcomes := make([]string, 8)
	for i := range outcomes {
		wg.Go(func() {
			x := NewExchange(Decision{Method: SCRAM}, testPeer(false), Plain("pencil"), keys)
			outcomes[i] = strings.ReplaceAll(run(t, x, &client{user: "alice", password: "pencil"}).String(), "compute ", "")
		})
	}
	wg.Wait()
	for _, o := range outcomes {
		if o != "10:15 11:92 12:46 ok" {
			t.Error(o)
		}
	}
	if keys.known("alice", "pencil") == nil {
		t.Error("derived and not known")
	}
}

// TestUnknownUsersIterations: those of the first stored secret that was met, for good.
func TestUnknownUsersIterations(t *testing.T) {
	keys := NewKeys()
	f := func(secret Secret, want int) {
		t.Helper()
		x := NewExchange(Decision{Method: SCRAM}, testPeer(false), secret, keys)
		run(t, x, &client{user: "alice", password: "pencil"})
		if x.sasl.iterations != want {
			t.Errorf("%d iterations, want %d", x.sasl.iterations, want)
		}
	}
	f(Secret{}, ourIterations)
	f(parse(t, stored("pencil", "0123456789abcdef", 9)), 9)
	f(Secret{}, 9)
	f(parse(t, stored("pencil", "0123456789abcdef", 8)), 8)
	f(Secret{}, 9)
	f(Plain("pencil"), ourIterations)
}
