package auth

import (
	"bytes"
	"fmt"
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

// TestOneVerifierForManyLogins: goroutines that find nothing derive, all others find
// it; whoever comes later gets the same.
func TestOneVerifierForManyLogins(t *testing.T) {
	keys := NewKeys()
	var wg sync.WaitGroup
	got := make([]*verifier, 8)
	for i := range got {
		wg.Go(func() { got[i] = keys.verifier("alice", "pencil") })
	}
	wg.Wait()
	for _, v := range got {
		if v.storedKey != got[0].storedKey || !bytes.Equal(v.salt, got[0].salt) {
			t.Error("two verifiers of one password")
		}
	}
	if keys.verifier("alice", "pencil") != keys.known("alice", "pencil") {
		t.Error("derives what is known")
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
	f(Secret{}, Iterations)
	f(parse(t, stored("pencil", "0123456789abcdef", 9)), 9)
	f(Secret{}, 9)
	f(parse(t, stored("pencil", "0123456789abcdef", 8)), 8)
	f(Secret{}, 9)
	f(Plain("pencil"), Iterations)
}
