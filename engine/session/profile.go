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
// what it has set since. Names in lower case, sorted, each once, with the value as
// PostgreSQL shows it or, of a parameter that it does not report, as the client
// has written it.
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
	list        bool   // value is what SET takes behind TO, not what SHOW gives
	set         string // the statement that sets it
}

var empty = &Profile{pipelined: true}

// Empty returns the profile of clients that asked for nothing.
func Empty() *Profile { return empty }

// profiles interns. Invariant: a key's weak pointer leads to the one live
// Profile with that content, or to none when its last client has left; its
// cleanup then removes the key. Memory therefore follows the clients that are
// connected, each bounded by the size of a startup packet and of what Settings
// takes (maxLog, maxReadBack).
var profiles struct {
	sync.Mutex
	byKey map[string]weak.Pointer[Profile]
}

// Intern returns the Profile with these settings: canonical values, names in
// lower case and unique, in any order. Safe for all goroutines; takes a mutex
// (once a login, and once a SET that changes something).
func Intern(settings []protocol.Param) *Profile {
	items := make([]item, len(settings))
	for i, s := range settings {
		items[i] = item{name: s.Name, value: s.Value}
	}
	return intern(items)
}

// intern is Intern for items, which it sorts and completes.
func intern(items []item) *Profile {
	if len(items) == 0 {
		return empty
	}
	slices.SortFunc(items, func(a, b item) int { return strings.Compare(a.name, b.name) })
	var b strings.Builder
	for i := range items {
		b.WriteString(items[i].name)
		if items[i].list {
			b.WriteByte('=') // no name has one
		}
		b.WriteByte(0)
		b.WriteString(items[i].value)
		b.WriteByte(0)
	}
	key := b.String()

	profiles.Lock()
	defer profiles.Unlock()
	if p := profiles.byKey[key].Value(); p != nil {
		return p
	}
	p := newProfile(items)
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

func newProfile(items []item) *Profile {
	p := &Profile{pipelined: true, items: items}
	for i := range items {
		it := &items[i]
		if it.list {
			it.set = string(appendSetList(nil, it.name, it.value))
		} else {
			it.set = string(appendSet(nil, it.name, it.value))
		}
		p.pipelined = p.pipelined && cannotFail(it.name, it.value)
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

func sameItem(a, b *item) bool {
	return a == nil && b == nil || a != nil && b != nil && a.value == b.value && a.list == b.list
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
