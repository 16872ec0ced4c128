package session

import (
	"encoding/binary"

	"pgkinetic/protocol"
)

// Plan says how a backend comes to carry a client's settings.
type Plan uint8

const (
	// Nothing: it carries them already.
	Nothing Plan = iota
	// Pipeline: send the batch, the client's message may follow at once.
	Pipeline
	// Await: send the batch, and the client's message only after the batch's
	// ReadyForQuery: the batch may fail, and then nothing of the client may run.
	Await
)

// Applied is what one backend carries: the Profile whose settings hold on it.
// The zero value fits a backend fresh from its login. Owner: the loop that owns
// the backend, together with its record of reports.
//
// Invariants: profile's settings hold on the backend, and every other parameter
// has its base value, as far as the server reports it and as of the report
// counted by gen; pending is set from the moment a batch is sent until
// Confirm, Failed, Cleared or Uncertain; uncertain means that nothing is known
// of what holds, and that the next batch therefore begins with RESET ALL. strayed
// means the same, but nothing that could end the batch is expected. A
// batch is one simple Query, hence one transaction: it holds as a whole or not
// at all.
//
// Also: a reported parameter whose bit in set is clear has no value of the
// session's own. One whose bit is set may have, though it equals the base: it
// would not follow a default that changes, so a client without a setting of its
// own gets it by RESET. pendingSet is set as it will be once the pending batch
// is confirmed.
type Applied struct {
	profile    *Profile // nil: empty
	pending    *Profile
	set        uint64 // bit i: of Reported.At(i)
	pendingSet uint64
	gen        uint32
	uncertain  bool
	strayed    bool
}

// Profile returns the profile whose settings hold.
func (a *Applied) Profile() *Profile {
	if a.profile == nil {
		return empty
	}
	return a.profile
}

// bit is that of the i-th reported parameter.
func bit(i int) uint64 { return 1 << i }

// Pending says whether a batch is under way.
func (a *Applied) Pending() bool { return a.pending != nil }

// Batch appends to dst the one Query message that makes a clean backend (idle,
// no pins, no batch under way) carry want instead of what it carries, or
// nothing when they do not differ; reported is the backend's own record. Its
// answers, ParameterStatus included, are not for the client. Call Confirm at
// its ReadyForQuery, or Failed if it was answered by an error. No allocation
// beyond the growth of dst.
func (a *Applied) Batch(dst []byte, want *Profile, reported Reported) (out []byte, plan Plan) {
	current := a.Profile()
	if current == want && a.gen == reported.Gen() && !a.uncertain && !a.strayed {
		return dst, Nothing
	}
	start := len(dst)
	dst = append(dst, protocol.FrontendQuery, 0, 0, 0, 0)
	body := len(dst)
	if a.uncertain || a.strayed {
		dst = a.appendAll(dst, want, reported)
	} else {
		dst = a.appendDifference(dst, current, want, reported)
	}
	if len(dst) == body {
		a.profile, a.gen = want, reported.Gen()
		return dst[:start], Nothing
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[start+1:], uint32(len(dst)-start-1))
	a.pending = want
	if current.pipelined && want.pipelined && !a.uncertain {
		return dst, Pipeline
	}
	return dst, Await
}

// Confirm records that the batch under way succeeded. What the server reports
// now for parameters outside the profile is their base.
func (a *Applied) Confirm(reported Reported) {
	a.profile, a.pending, a.uncertain, a.strayed = a.pending, nil, false, false
	a.set = a.pendingSet
	a.rebase(reported)
}

// Failed records that the batch under way failed: PostgreSQL has taken all of
// it back. After Plan Pipeline the client's first message ran without its
// settings, so both connections must be closed.
func (a *Applied) Failed() { a.pending = nil }

// Cleared records that DISCARD ALL (or RESET ALL with the role and session user reset)
// succeeded: nothing of any client holds.
func (a *Applied) Cleared(reported Reported) {
	a.profile, a.pending, a.uncertain, a.strayed = empty, nil, false, false
	a.set = 0
	a.rebase(reported)
}

// Uncertain records that it is not known what holds: a batch was under way when
// its outcome was lost, or somebody's own SQL ran as the clean-up.
func (a *Applied) Uncertain() { a.profile, a.pending, a.uncertain = empty, nil, true }

// Stray records that something may have been set that nothing shows: the next batch
// begins with RESET ALL.
func (a *Applied) Stray() { a.strayed = true }

func (a *Applied) rebase(reported Reported) {
	login := a.Profile().identity().login()
	for i := range reported.Len() {
		// The facts of the login's user are not those of a role.
		if name, _, _ := reported.At(i); a.Profile().find(name) == nil && (reported.SettableAt(i) || login) {
			reported.Rebase(i)
		}
	}
	a.gen = reported.Gen()
}

// appendAll appends the statements that make want hold whatever held before.
func (a *Applied) appendAll(dst []byte, want *Profile, reported Reported) []byte {
	a.pendingSet = 0
	for i := range reported.Len() {
		if name, _, _ := reported.At(i); want.find(name) != nil {
			a.pendingSet |= bit(i)
		}
	}
	dst = append(appendIdentityReset(dst), "RESET ALL;"...)
	for i := range want.items {
		if !identity(want.items[i].name) {
			dst = append(dst, want.items[i].set...)
		}
	}
	return want.identity().appendTo(dst)
}

// who is the user whose rights hold, where it is another than the login's.
type who struct{ session, role *item }

func (p *Profile) identity() who {
	return who{session: p.find("session_authorization"), role: p.find("role")}
}

func (w who) login() bool { return w.session == nil && w.role == nil }

func (w who) appendTo(dst []byte) []byte {
	for _, it := range [...]*item{w.session, w.role} {
		if it != nil {
			dst = append(dst, it.set...)
		}
	}
	return dst
}

// identity says whether a parameter decides whose rights hold.
func identity(name string) bool { return name == "role" || name == "session_authorization" }

// appendDifference appends the statements. Where another user's rights are or
// will be in force, they are put off first and on last, so that everything else
// is set by the user that logged in.
func (a *Applied) appendDifference(dst []byte, current, want *Profile, reported Reported) []byte {
	had, who := current.identity(), want.identity()
	if had.login() && who.login() {
		if identityStrayed(reported) {
			dst = appendIdentityReset(dst)
		}
		return a.appendSettings(dst, current, want, reported)
	}
	start := len(dst)
	dst = appendIdentityReset(dst)
	body := len(dst)
	dst = a.appendSettings(dst, current, want, reported)
	if len(dst) == body && sameItem(had.session, who.session) && sameItem(had.role, who.role) {
		return dst[:start]
	}
	return who.appendTo(dst)
}

func appendIdentityReset(dst []byte) []byte {
	return append(dst, `RESET "role";RESET "session_authorization";`...)
}

// identityStrayed says whether the reports show a role or session user that no
// profile asked for: set inside a function, where the wire does not show it.
func identityStrayed(reported Reported) bool {
	for i := range reported.Len() {
		name, value, base := reported.At(i)
		if (name == "session_authorization" || name == "is_superuser") && string(value) != string(base) {
			return true
		}
	}
	return false
}

// appendSettings appends what differs apart from the role. A parameter that
// the server reports is compared by its report; of the others the profiles tell.
func (a *Applied) appendSettings(dst []byte, current, want *Profile, reported Reported) []byte {
	a.pendingSet = a.set
	for i := range reported.Len() {
		if !reported.SettableAt(i) {
			continue
		}
		name, value, base := reported.At(i)
		if it := want.find(name); it != nil {
			if it.value != string(value) {
				dst = append(dst, it.set...)
				a.pendingSet |= bit(i)
			}
		} else if string(value) != string(base) || a.set&bit(i) != 0 {
			dst = appendReset(dst, name)
			a.pendingSet &^= bit(i)
		}
	}
	for i := range current.items {
		name := current.items[i].name
		if want.find(name) == nil && !elsewhere(reported, name) {
			dst = appendReset(dst, name)
		}
	}
	for i := range want.items {
		it := &want.items[i]
		if elsewhere(reported, it.name) {
			continue
		}
		if had := current.find(it.name); !sameItem(had, it) {
			dst = append(dst, it.set...)
		}
	}
	return dst
}

// elsewhere says whether a setting of a profile is dealt with by report or, as
// the role, on its own.
func elsewhere(reported Reported, name string) bool {
	_, ok := reported.Get(name)
	return ok || identity(name)
}
