package statements

import (
	"hash/maphash"
	"runtime"
	"sync"
	"weak"
)

// Store makes one Statement of equal bodies.
//
// State. A table from a hash to the statements with that hash, by weak pointers.
// Owner. All goroutines, under its mutex; a Cache in front of it keeps loops away.
//
// Invariants.
//
//  1. A node's weak pointer leads to the one live Statement of its content, or
//     to none once nobody holds it; its cleanup then removes the node. Memory
//     follows what clients, servers and caches hold, each of them bounded.
//  2. The hash decides nothing: bodies are compared in full.
//  3. A Statement that depends on the environment is under its body's hash mixed
//     with those of the environment, any other under its body's hash mixed with that
//     of what its names depend on. Clients
//     with many environments therefore make no long chains.
type Store struct {
	mu     sync.Mutex
	byHash map[uint64]node
	peak   int    // most entries of byHash since it was made
	mask   uint64 // of the hashes; less than all bits in tests of collisions
}

type node struct {
	statement weak.Pointer[Statement]
	next      *node
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{mask: ^uint64(0)} }

// Intern returns the Statement for a Parse message's body behind the name, for a
// client with this environment. It returns nil when the body is malformed:
// PostgreSQL is to answer that itself. The body is copied if it is new. Safe for
// all goroutines; takes a mutex and, for an existing one, does not allocate.
func (s *Store) Intern(env Environment, body []byte) *Statement {
	return s.intern(env, body, maphash.Bytes(seed, body)&s.mask)
}

// Under returns the Statement with st's text and types for a client with another
// environment, which may be st itself.
func (s *Store) Under(env Environment, st *Statement) *Statement {
	if st.under(env) {
		return st
	}
	return s.intern(env, st.body, st.hash)
}

func (s *Store) intern(env Environment, body []byte, hash uint64) *Statement {
	text, ok := wellFormed(body)
	if !ok {
		return nil
	}
	base := hash
	hash = (hash ^ env.namesHash) & s.mask
	s.mu.Lock()
	defer s.mu.Unlock()
	if st := s.find(hash, env, body); st != nil {
		return st
	}
	if st := s.find((hash^env.hash)&s.mask, env, body); st != nil {
		return st
	}
	st := newStatement(body, text, base)
	if st.own {
		return st
	}
	st.environment.names = env.names
	key := hash
	if st.dependent {
		st.environment = env
		key = (hash ^ env.hash) & s.mask
	}
	s.insert(key, st)
	return st
}

func (s *Store) find(key uint64, env Environment, body []byte) *Statement {
	n, ok := s.byHash[key]
	if !ok {
		return nil
	}
	for p := &n; p != nil; p = p.next {
		if st := p.statement.Value(); st != nil && st.is(env, body) {
			return st
		}
	}
	return nil
}

func (s *Store) insert(key uint64, st *Statement) {
	if s.byHash == nil {
		s.byHash = make(map[uint64]node)
	}
	added := node{statement: weak.Make(st)}
	if first, ok := s.byHash[key]; ok {
		added.next = &first
	}
	s.byHash[key] = added
	s.peak = max(s.peak, len(s.byHash))
	runtime.AddCleanup(st, s.forget, key)
}

// forget runs after a Statement was collected and removes the dead of its chain.
// An equal one may have been interned meanwhile: that one stays.
func (s *Store) forget(key uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var live *node
	first, ok := s.byHash[key]
	if !ok {
		return
	}
	for p := &first; p != nil; p = p.next {
		if p.statement.Value() != nil {
			live = &node{statement: p.statement, next: live}
		}
	}
	if live != nil {
		s.byHash[key] = *live
		return
	}
	delete(s.byHash, key)
	s.shrink()
}

// minPeak is the size below which the table is not made anew.
const minPeak = 1024

// shrink makes the table anew when it was much larger once: a Go map gives no
// memory back.
func (s *Store) shrink() {
	if s.peak < minPeak || len(s.byHash) > s.peak/8 {
		return
	}
	smaller := make(map[uint64]node, len(s.byHash))
	for key, n := range s.byHash {
		smaller[key] = n
	}
	s.byHash, s.peak = smaller, len(smaller)
}

// Len returns how many statements are known, those included that nobody holds
// any more and that have not been collected yet.
func (s *Store) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, first := range s.byHash {
		for p := &first; p != nil; p = p.next {
			n++
		}
	}
	return n
}
