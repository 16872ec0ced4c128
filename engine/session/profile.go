// Package session holds what pg-kinetic knows of one client's session apart
// from its connection: the settings it asked for at startup or by SET, and how
// they come to hold on every backend that serves it, and only there.
package session

import (
	"runtime"
	"slices"
	"strings"
	"sync"
	"weak"

	"pgkinetic/protocol"
)

// Profile is the settings of a client: what it asked for at startup, judged, and
// what it has set since (Adopt). Names in lower case, sorted, each once, with the
// value as PostgreSQL shows it.
// Immutable; equal settings share one pointer, so that comparing two clients'
// settings is comparing pointers. Any loop may read it.
type Profile struct {
	items []item
	// pipelined: setting them cannot fail once it went well, so a client's
	// first message may follow the batch without waiting for its end.
	pipelined bool
}

type item struct {
	name, value string
	set         string // the statement that sets it
}

var empty = &Profile{pipelined: true}

// Empty returns the profile of clients that asked for nothing.
func Empty() *Profile { return empty }

// profiles interns. Invariant: a key's weak pointer leads to the one live
// Profile with that content, or to none when its last client has left; its
// cleanup then removes the key. Memory therefore follows the clients that are
// connected, each bounded by the size of a startup packet and of what Adopt
// takes.
var profiles struct {
	sync.Mutex
	byKey map[string]weak.Pointer[Profile]
}

// Intern returns the Profile with these settings: canonical values, names in
// lower case and unique, in any order. Safe for all goroutines; takes a mutex
// (once a login, and once a SET that changes something).
func Intern(settings []protocol.Param) *Profile {
	if len(settings) == 0 {
		return empty
	}
	settings = slices.Clone(settings)
	slices.SortFunc(settings, func(a, b protocol.Param) int { return strings.Compare(a.Name, b.Name) })
	var b strings.Builder
	for _, s := range settings {
		b.WriteString(s.Name)
		b.WriteByte(0)
		b.WriteString(s.Value)
		b.WriteByte(0)
	}
	key := b.String()

	profiles.Lock()
	defer profiles.Unlock()
	if p := profiles.byKey[key].Value(); p != nil {
		return p
	}
	p := newProfile(settings)
	if profiles.byKey == nil {
		profiles.byKey = make(map[string]weak.Pointer[Profile])
	}
	profiles.byKey[key] = weak.Make(p)
	runtime.AddCleanup(p, forgetProfile, key)
	return p
}

// forgetProfile runs after a Profile was collected. An equal one may have been
// interned meanwhile: that one stays.
func forgetProfile(key string) {
	profiles.Lock()
	defer profiles.Unlock()
	if p, ok := profiles.byKey[key]; ok && p.Value() == nil {
		delete(profiles.byKey, key)
	}
}

func newProfile(sorted []protocol.Param) *Profile {
	p := &Profile{pipelined: true, items: make([]item, len(sorted))}
	for i, s := range sorted {
		p.items[i] = item{name: s.Name, value: s.Value, set: string(appendSet(nil, s.Name, s.Value))}
		p.pipelined = p.pipelined && cannotFail(s.Name, s.Value)
	}
	return p
}

// Len returns how many settings there are.
func (p *Profile) Len() int { return len(p.items) }

// At returns the i-th setting, in order of names.
func (p *Profile) At(i int) (name, value string) { return p.items[i].name, p.items[i].value }

// Get returns the value of a setting, looked up without regard to case.
func (p *Profile) Get(name string) (value string, ok bool) {
	if it := p.find(name); it != nil {
		return it.value, true
	}
	return "", false
}

func (p *Profile) find(name string) *item {
	for i := range p.items {
		if it := &p.items[i]; len(it.name) == len(name) && (it.name == name || equalFold(it.name, name)) {
			return it
		}
	}
	return nil
}

// equalFold compares lower, a name in lower case, with a name of equal length.
func equalFold(lower, name string) bool {
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// cannotFail says whether setting a parameter to a value that PostgreSQL has
// accepted once can be relied on: its check looks at nothing that changes. A
// short statement or transaction time-out could end the very batch that
// replaces it, so those count only from one second on.
func cannotFail(name, value string) bool {
	switch name {
	case "application_name", "client_encoding", "datestyle", "intervalstyle", "timezone",
		"extra_float_digits", "bytea_output", "search_path", "standard_conforming_strings",
		"client_min_messages", "work_mem", "geqo", "jit", "plan_cache_mode", "lock_timeout",
		"idle_in_transaction_session_timeout", "default_transaction_isolation",
		"default_transaction_read_only", "default_transaction_deferrable", "row_security",
		"tcp_keepalives_idle", "tcp_keepalives_interval", "tcp_keepalives_count", "tcp_user_timeout":
		return true
	case "statement_timeout", "transaction_timeout":
		ms, inMs := strings.CutSuffix(value, "ms")
		return !inMs || len(ms) > 3
	}
	return false
}

// LoginParams appends the ParameterStatus messages of a client's login: those
// of the pool, with the client's own values where it asked for some.
func LoginParams(dst []byte, pool Defaults, p *Profile) []byte {
	if len(p.items) == 0 {
		return pool.AppendAll(dst)
	}
	for i := range pool.Len() {
		status := pool.At(i)
		if it := p.find(status.Name); it != nil {
			status.Value = it.value
		}
		dst = protocol.AppendParameterStatus(dst, status.Name, status.Value)
	}
	return dst
}
