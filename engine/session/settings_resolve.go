package session

import (
	"slices"

	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// What a client's settings have come to, once all is answered.

// Resolution says what Resolve has found.
type Resolution uint8

const (
	// Resolved: the Profile is the client's, any backend will do.
	Resolved Resolution = iota
	// AskServer: what holds is not known here. Send AppendReadBack to the same
	// backend, give what comes to Answer, and call Resolve again.
	AskServer
	// KeepServer: the backend could not tell. The client keeps it, and Resolve
	// asks again the next time.
	KeepServer
)

// Resolve returns the Profile of the client whose Profile was prof and, at its
// login, first. The backend, to which a and reported belong, is idle and owes
// nothing, and was not cleaned since it has last served the client; a is told
// what it carries now. No allocation if the Profile does not change.
func (s *Settings) Resolve(prof, first *Profile, a *Applied, reported Reported) (*Profile, Resolution) {
	switch {
	case !s.Live():
		return prof, Resolved
	case s.answer.failed:
		s.answer = readBack{}
		return prof, KeepServer
	case !s.answer.complete && s.mustAsk(prof, reported):
		if len(s.ask) > maxAsk {
			return prof, KeepServer
		}
		s.answer = readBack{}
		return prof, AskServer
	case s.doubt:
		prof = s.settingsRead(prof, first, a, reported)
	case s.unchanged(prof, a, reported):
		a.carry(prof, reported, s.touched)
	default:
		a.carry(s.outcome(a.Profile(), empty, first, reported), reported, s.touched)
		prof = s.outcome(prof, first, first, reported)
	}
	s.finish(a)
	return prof, Resolved
}

// finish leaves everything at rest.
func (s *Settings) finish(a *Applied) {
	if s.stray {
		a.strayed = true
	}
	s.clear()
}

func (s *Settings) clear() {
	s.forget()
	s.doubt, s.stray, s.escape, s.ask, s.answer = false, false, false, nil, readBack{}
}

// mustAsk says whether the server must be asked, and gathers for what: values
// that hold now of which neither text nor report tells, or whose report is not to
// be passed on; in doubt, all that prof has.
func (s *Settings) mustAsk(prof *Profile, reported Reported) bool {
	if s.doubt {
		s.askForAll(s.log)
		for i := range prof.items {
			s.askFor([]byte(prof.items[i].name))
		}
		return true
	}
	s.ask = s.ask[:0]
	for i := range s.log {
		c := &s.log[i]
		if c.kind != sqllex.OpSet || c.local || s.overridden(i) {
			continue
		}
		name := s.of(c.name)
		if value, _, known := valueOf(reported, string(name)); known && !plainValue(value) || !known && c.opaque {
			s.ask = append(s.ask, string(name))
		}
	}
	return len(s.ask) > 0
}

// overridden says whether a later entry of the log decides the parameter of
// entry i.
func (s *Settings) overridden(i int) bool {
	for j := i + 1; j < len(s.log); j++ {
		if s.concerns(j, s.of(s.log[i].name)) {
			return true
		}
	}
	return false
}

// concerns says whether entry i of the log decides the parameter, whose name is
// in lower case.
func (s *Settings) concerns(i int, name []byte) bool {
	switch c := &s.log[i]; {
	case c.kind == sqllex.OpDiscardAll:
		return true
	case c.kind == sqllex.OpResetAll:
		return !identity(string(name))
	default:
		return !c.local && string(s.of(c.name)) == string(name)
	}
}

// touched says whether the log concerns the parameter, whatever the case of its
// name.
func (s *Settings) touched(name string) bool {
	var buf [maxParameter]byte
	lower := append(buf[:0], name...)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	for i := range s.log {
		if s.concerns(i, lower) {
			return true
		}
	}
	return false
}

// unchanged says whether the log has only set what holds already.
func (s *Settings) unchanged(prof *Profile, a *Applied, reported Reported) bool {
	if a.Profile() != prof {
		return false
	}
	for i := range s.log {
		c := &s.log[i]
		if c.local {
			continue
		}
		if c.kind != sqllex.OpSet || c.opaque {
			return false
		}
		it := prof.find(string(s.of(c.name)))
		if it == nil {
			return false
		}
		if value, _, known := valueOf(reported, it.name); known {
			if it.list || it.value != string(value) {
				return false
			}
			continue
		}
		var buf [256]byte
		if value, list := fromList(buf[:0], it.name, s.of(c.value)); list != it.list || it.value != string(value) {
			return false
		}
	}
	return true
}

// outcome is what the log makes of p, where a reset leads back to base, and one
// that was made good to first.
func (s *Settings) outcome(p, base, first *Profile, reported Reported) *Profile {
	d := draft(slices.Clone(p.items))
	for i := range s.log {
		c := &s.log[i]
		if c.local {
			continue
		}
		switch c.kind {
		case sqllex.OpDiscardAll:
			d = append(d[:0], base.items...)
		case sqllex.OpResetAll:
			d.resetAll(base)
		case sqllex.OpReset:
			to := base
			if c.restored {
				to = first
			}
			d.back(string(s.of(c.name)), to)
		case sqllex.OpSet:
			if it, ok := s.item(c, reported); ok && !s.overridden(i) {
				d.put(it)
			}
		}
	}
	return intern(d)
}

// item is what an OpSet has come to; ok is false where that is nothing.
func (s *Settings) item(c *effect, reported Reported) (it item, ok bool) {
	name := string(s.of(c.name))
	if slices.Contains(s.ask, name) {
		i := slices.IndexFunc(s.answer.items, func(it item) bool { return it.name == name })
		if i < 0 {
			return it, false
		}
		return s.answer.items[i], true
	}
	it = item{name: name}
	if value, _, known := valueOf(reported, name); known {
		it.value = string(value)
		return it, true
	}
	value, list := fromList(nil, name, s.of(c.value))
	it.value, it.list = string(value), list
	return it, true
}

// draft is the items of a Profile in the making.
type draft []item

func (d *draft) put(it item) {
	d.drop(it.name)
	*d = append(*d, it)
}

func (d *draft) drop(name string) {
	*d = slices.DeleteFunc(*d, func(it item) bool { return it.name == name })
}

// back gives a parameter the value of base.
func (d *draft) back(name string, base *Profile) {
	d.drop(name)
	if it := base.find(name); it != nil {
		*d = append(*d, *it)
	}
}

// resetAll gives all parameters but the identity the value of base.
func (d *draft) resetAll(base *Profile) {
	*d = slices.DeleteFunc(*d, func(it item) bool { return !identity(it.name) })
	for i := range base.items {
		if it := &base.items[i]; !identity(it.name) {
			*d = append(*d, *it)
		}
	}
}

// fromList returns the value of a list as Op.AppendValue gives it: the one value
// where it is one (appended to dst), else the list itself.
func fromList(dst []byte, name string, list []byte) (value []byte, isList bool) {
	if quotedList(name) || len(list) == 0 {
		return list, true
	}
	if list[0] != 'E' {
		if slices.Contains(list, ',') {
			return list, true
		}
		return list, false
	}
	for i := 2; i < len(list); i++ {
		c := list[i]
		if c == '\'' || c == '\\' {
			if i+1 == len(list) {
				return dst, false
			}
			if i++; list[i] != c {
				break // the string is not the last element
			}
		}
		dst = append(dst, c)
	}
	return list, true
}

// carry records that the backend carries p since a client's own statements have
// changed the parameters for which touched is true.
func (a *Applied) carry(p *Profile, reported Reported, touched func(name string) bool) {
	a.profile = p
	for i := range reported.Len() {
		name, _, _ := reported.At(i)
		switch {
		case !touched(name):
		case p.find(name) != nil:
			a.set |= bit(i)
		default:
			a.set &^= bit(i)
		}
	}
}

// Restore appends, behind a ReadyForQuery with this status, the Query that gives
// the client its startup values (of first, its Profile at login) back where it has
// reset them within a block that is open: a RESET there leads to the server's own.
// Nothing where it has not, or the block has failed.
func (s *Settings) Restore(dst []byte, status byte, first *Profile) []byte {
	if s == nil || !s.reset || status != protocol.StatusBlock {
		return dst
	}
	s.reset = false
	var sql []byte
	for i := range first.items {
		if it := &first.items[i]; s.isReset(it.name) {
			sql = append(sql, it.set...)
			s.log = append(s.log, effect{kind: sqllex.OpReset, restored: true, name: s.put(it.name)})
		}
	}
	if sql == nil {
		return dst
	}
	return protocol.AppendQuery(dst, string(sql))
}

// isReset says whether the last that happened to a parameter in this
// transaction is a reset that has not been made good.
func (s *Settings) isReset(name string) bool {
	for i := len(s.log) - 1; i >= 0; i-- {
		c := &s.log[i]
		if c.local && string(s.of(c.name)) == name {
			return false
		}
		if s.concerns(i, []byte(name)) {
			return c.resets() && !c.restored
		}
	}
	return false
}

// Leave tells that the client leaves its backend for good while something may be
// unresolved: the next batch then sets the backend right. Call it before the
// backend is cleaned; nil-safe, and free where nothing is followed.
func (s *Settings) Leave(a *Applied) {
	if !s.Live() {
		return
	}
	if s.changing() {
		a.Uncertain()
	} else if s.stray {
		a.strayed = true
	}
	s.clear()
}

// Lost tells that the backend is lost, and says whether settings of the client
// are lost with it.
func (s *Settings) Lost() (lost bool) {
	if !s.Live() {
		return false
	}
	lost = s.changing()
	s.clear()
	return lost
}

// changing says whether the settings are not what they were at the last Resolve,
// or may come not to be.
func (s *Settings) changing() bool {
	if s.doubt || len(s.log) > 0 {
		return true
	}
	return slices.ContainsFunc(s.sent[s.head:], func(o operation) bool {
		switch o.kind {
		case sqllex.OpUnknown, sqllex.OpSet, sqllex.OpReset, sqllex.OpResetAll, sqllex.OpDiscardAll,
			sqllex.OpDo, sqllex.OpExecute:
			return true
		}
		return false
	})
}
