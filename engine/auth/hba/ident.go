package hba

import (
	"regexp"
	"slices"
	"strings"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// mapping is one line of a user name map.
type mapping struct {
	name string // of the map
	// The name that a certificate gives its bearer: exactly, or by a pattern.
	system        string
	systemPattern *regexp.Regexp
	// The users as whom the bearer may log in: all, those of a pattern, or the one
	// that is called before + what the first group of systemPattern found + after;
	// without captured just before.
	all           bool
	userPattern   *regexp.Regexp
	before, after string
	captured      bool
}

// Maps are the user name maps of a file and of those that it includes.
type Maps struct{ mappings []mapping }

var _ auth.Maps = (*Maps)(nil)

// LoadMaps reads a file of user name maps as LoadRules reads one of rules. A file
// without a line is in order.
func LoadMaps(source Source, name string, from configs.Place) (*Maps, []configs.Problem) {
	r := &reader{files: source.Files}
	maps := &Maps{}
	for _, rec := range r.file(name, 0, from) {
		p := lineParser{reader: r, record: rec}
		maps.mappings = append(maps.mappings, p.mapping())
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	maps.mappings = slices.Clip(maps.mappings)
	return maps, nil
}

// mapping reads the line; it is of use only when there were no problems.
func (p *lineParser) mapping() mapping {
	var m mapping
	if w, ok := p.one("the name of the map"); ok {
		m.name = w.text
	}
	system, ok := p.one("the name in the certificate")
	if ok && isPattern(system) {
		m.systemPattern = p.pattern(system)
	}
	m.system = system.text
	if user, ok := p.one("the user"); ok {
		p.mappedUser(&m, user)
	}
	if !p.stopped && p.at < len(p.fields) {
		p.fail(p.place, "the line has more than three fields")
	}
	return m
}

// groupReference stands, in the user of a mapping, for what the first group found.
const groupReference = `\1`

func (p *lineParser) mappedUser(m *mapping, w word) {
	switch {
	case w.is("all"):
		m.all = true
	case p.isGroup(w):
	case isPattern(w):
		m.userPattern = p.pattern(w)
	case m.systemPattern == nil:
		m.before = w.text
	default:
		m.before, m.after, m.captured = strings.Cut(w.text, groupReference)
		if m.captured && m.systemPattern.NumSubexp() == 0 {
			p.fail(w.place, "%q refers to a group, but the regular expression has none in parentheses", w.text)
		}
	}
}

// Allows tells whether a map lets the bearer of a certificate's name log in as a
// user: whether the map has a line for both. Names are compared byte by byte.
func (m *Maps) Allows(mapName, certificateName, user string) bool {
	for i := range m.mappings {
		line := &m.mappings[i]
		if line.name != mapName {
			continue
		}
		allowed, failed := line.allows(certificateName, user)
		if allowed || failed {
			return allowed
		}
	}
	return false
}

// allows tells whether the line is for both names. It fails where its group found
// nothing although the rest did: PostgreSQL takes that for an error, and lets no
// later line decide.
func (m *mapping) allows(system, user string) (allowed, failed bool) {
	group := ""
	switch {
	case m.systemPattern == nil:
		if system != m.system {
			return false, false
		}
	case !m.captured:
		if !m.systemPattern.MatchString(system) {
			return false, false
		}
	default:
		found := m.systemPattern.FindStringSubmatchIndex(system)
		if found == nil {
			return false, false
		}
		if found[2] < 0 {
			return false, true
		}
		group = system[found[2]:found[3]]
	}
	switch {
	case m.all:
		return true, false
	case m.userPattern != nil:
		return m.userPattern.MatchString(user), false
	}
	return user == m.before+group+m.after, false
}

// has tells whether a map has any line.
func (m *Maps) has(mapName string) bool {
	return slices.ContainsFunc(m.mappings, func(line mapping) bool { return line.name == mapName })
}
