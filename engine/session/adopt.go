package session

import (
	"slices"

	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// How a client's own SET becomes part of its Profile. Only parameters that
// every server reports come to be adopted; what a SET of them has come to is
// what the backend reports once it is idle, whatever the text, COMMIT, ROLLBACK
// or errors made of it. PostgreSQL before 14 reports each change at once, also
// those that it takes back later; from 14 on it reports what differs from the
// last report just before each ReadyForQuery. In both, the last report before
// the ReadyForQuery that says idle is the value that holds.

// adoptable are the parameters that a Profile takes over.
var adoptable = [...]struct {
	name string
	flag sqllex.Flags
}{
	{"application_name", sqllex.SetApplicationName},
	{"client_encoding", sqllex.SetClientEncoding},
	{"datestyle", sqllex.SetDateStyle},
	{"intervalstyle", sqllex.SetIntervalStyle},
	{"standard_conforming_strings", sqllex.SetStandardConformingStrings},
	{"timezone", sqllex.SetTimeZone},
}

// adoptableFlag is the flag of a SET of the parameter, 0 if it is none of those.
func adoptableFlag(name string) sqllex.Flags {
	for i := range adoptable {
		if a := &adoptable[i]; len(a.name) == len(name) && equalFold(a.name, name) {
			return a.flag
		}
	}
	return 0
}

// Request is what must be known of one request of a client to adopt its
// settings. The zero value is a request that has just begun. Owner: the client.
type Request struct {
	// Seen is the sum of the flags of all texts that were sent in it.
	Seen sqllex.Flags
	// Failed: an ErrorResponse was among the answers.
	Failed bool
}

// Matters says whether Adopt may change the Profile.
func (r Request) Matters() bool {
	return r.Seen&(sqllex.SetReported|sqllex.Discard) != 0
}

// certain says whether every SET of the request has taken effect: none was in a
// block that ended in ROLLBACK, nor in a group with an error.
func (r Request) certain() bool {
	return !r.Failed && r.Seen&(sqllex.End|sqllex.Discard) == 0
}

// Adopt returns the Profile of a client whose Profile was p and whose request r
// is complete: p, but with those parameters that r set as the backend reports
// them now. login is the Profile of the client's login, to whose values DISCARD
// ALL returns. The backend must be idle, owe nothing, and not have been cleaned
// since the request.
//
// A value that was the same before is adopted only where it is certain that a
// SET made it the client's own: otherwise it may have been taken back.
//
// ok is false when it is not known what holds, or when the value cannot be
// given to another backend; the client must then keep this one. A mutex is
// taken, and memory allocated, only when the Profile changes.
func (p *Profile) Adopt(login *Profile, reported Reported, r Request) (adopted *Profile, ok bool) {
	if r.Seen&sqllex.SetSession != 0 {
		return p, false // which settings a RESET took back is not known
	}
	var changes [len(adoptable)]change
	n := 0
	for i := range adoptable {
		name, set := adoptable[i].name, r.Seen&adoptable[i].flag != 0
		own, first := p.find(name), login.find(name)
		if !set && (r.Seen&sqllex.Discard == 0 || sameItem(own, first)) {
			continue
		}
		value, base, known := valueOf(reported, name)
		if !known || !plainValue(value) {
			return p, false
		}
		c := change{name: name, value: value, adopt: true}
		same, isBase := own != nil && own.value == string(value), string(base) == string(value)
		switch {
		case r.backToLogin(set, same, isBase):
			c = change{name: name, back: first}
		case same, own == nil && isBase && !r.certain():
			continue
		}
		changes[n] = c
		n++
	}
	if n == 0 {
		return p, true
	}
	return p.with(changes[:n]), true
}

// backToLogin says whether DISCARD ALL took a parameter back: what is reported
// is not what the client had set, same, or is the base. Where that fits the
// smaller forms of DISCARD as well, it is taken for ALL, which drivers use.
func (r Request) backToLogin(set, same, isBase bool) bool {
	return r.Seen&sqllex.Discard != 0 && (isBase || !set) && !(same && (r.Failed || !isBase))
}

// change is a setting that a Profile is to have: the adopted value, or what the
// login asked for, if it did.
type change struct {
	name  string
	value []byte
	adopt bool
	back  *item
}

// with returns the Profile that differs from p by the changes.
func (p *Profile) with(changes []change) *Profile {
	settings := make([]protocol.Param, 0, len(p.items)+len(changes))
	for i := range p.items {
		it := &p.items[i]
		if !slices.ContainsFunc(changes, func(c change) bool { return c.name == it.name }) {
			settings = append(settings, protocol.Param{Name: it.name, Value: it.value})
		}
	}
	for i := range changes {
		switch c := &changes[i]; {
		case c.adopt:
			settings = append(settings, protocol.Param{Name: c.name, Value: string(c.value)})
		case c.back != nil:
			settings = append(settings, protocol.Param{Name: c.name, Value: c.back.value})
		}
	}
	return Intern(settings)
}
