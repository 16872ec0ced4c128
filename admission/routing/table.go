package routing

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxApplication is the length in bytes to which an application_name is cut, as PostgreSQL cuts names (NAMEDATALEN − 1).
const MaxApplication = 63

// maxPatternInput bounds what the pattern of Options sees of an application_name, in bytes.
const maxPatternInput = 1024

// Rule is one entry of the configuration's routes. An empty list or set matches everything.
type Rule struct {
	// Name makes one route per pool of everything that matches, kept apart by SplitBy. A rule without a name leaves the
	// ordinary key and makes routes of its own by it. Names have no NUL byte.
	Name string
	// Patterns in which `*` stands for any bytes or none; any of the list matches.
	Database, User, Application []string
	// Addrs are networks of clients; an IPv4 client is matched by IPv4 networks only (IPv4-mapped ones included). Unix
	// matches clients on a Unix socket. If both are unset every client matches.
	Addrs   []netip.Prefix
	Unix    bool
	Classes ClassSet
	SplitBy Parts // without a name it has no meaning
}

// Options describe a Table.
type Options struct {
	Key   Parts  // the ordinary key; database and user always belong to it
	Rules []Rule // the first that matches counts
	// Pattern is replaced in an application_name by Replace, as regexp.Regexp.ReplaceAllString does; nil: as it is.
	Pattern *regexp.Regexp
	Replace string
}

// Table tells the route of a key. It never changes; any goroutine.
type Table struct {
	key      Parts
	rules    []rule
	byID     map[string]int
	pattern  *regexp.Regexp
	replace  string
	useClass bool
}

type rule struct {
	id                          string
	parts                       Parts // what its routes keep of a key
	database, user, application globs
	addrs                       []netip.Prefix
	unix, anyAddr               bool
	classes                     ClassSet
}

// NewTable compiles o. It panics if a rule's name has a NUL byte.
func NewTable(o Options) *Table {
	t := &Table{
		key: o.Key | PartDatabase | PartUser, byID: make(map[string]int, len(o.Rules)),
		pattern: o.Pattern, replace: o.Replace,
	}
	for i := range o.Rules {
		r := compileRule(&o.Rules[i], t.key)
		t.rules = append(t.rules, r)
		if _, known := t.byID[r.id]; !known {
			t.byID[r.id] = i
		}
	}
	t.useClass = t.dependsOnClass()
	return t
}

func compileRule(o *Rule, key Parts) rule {
	if strings.Contains(o.Name, "\x00") {
		panic("routing: a rule's name has a NUL byte")
	}
	r := rule{classes: o.Classes & AllClasses, unix: o.Unix, anyAddr: !o.Unix && len(o.Addrs) == 0, parts: key}
	if r.classes == 0 {
		r.classes = AllClasses
	}
	var id strings.Builder
	id.WriteString(unnamed)
	r.database = addGlobs(&id, partNames[0], o.Database)
	r.user = addGlobs(&id, partNames[1], o.User)
	r.application = addGlobs(&id, partNames[2], o.Application)
	for _, a := range o.Addrs {
		r.addrs = append(r.addrs, unmapPrefix(a))
	}
	slices.SortFunc(r.addrs, netip.Prefix.Compare)
	r.addrs = slices.Compact(r.addrs)
	if !r.anyAddr {
		fmt.Fprintf(&id, "%s=%v,%t ", partNames[3], r.addrs, r.unix)
	}
	if r.classes != AllClasses {
		fmt.Fprintf(&id, "%s=%d ", partNames[4], r.classes)
	}
	r.id = id.String()
	if o.Name != "" {
		r.id, r.parts = o.Name, o.SplitBy
	}
	return r
}

// addGlobs compiles patterns and adds them to a rule's text: quoted, so that different lists never give the same text.
func addGlobs(id *strings.Builder, part string, patterns []string) globs {
	compiled, canonical := compileGlobs(patterns)
	if len(compiled) > 0 {
		fmt.Fprintf(id, "%s=%q ", part, canonical)
	}
	return compiled
}

// unmapPrefix masks p, and makes the IPv4 network of an IPv4-mapped one.
func unmapPrefix(p netip.Prefix) netip.Prefix {
	const mapped = 96 // bits before the IPv4 address
	if p.Addr().Is4In6() && p.Bits() >= mapped {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p.Masked()
}

func (r *rule) matches(k *Key) bool {
	return r.classes.Has(k.Class) && r.database.match(k.Database) && r.user.match(k.User) &&
		r.application.match(k.Application) && r.matchesAddr(k.Addr)
}

func (r *rule) matchesAddr(a netip.Addr) bool {
	if r.anyAddr || r.unix && !a.IsValid() {
		return true
	}
	for _, p := range r.addrs {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func (r *rule) matchesAll() bool {
	return r.classes == AllClasses && r.anyAddr && len(r.database)+len(r.user)+len(r.application) == 0
}

// dependsOnClass looks at the rules up to the first that matches everything.
func (t *Table) dependsOnClass() bool {
	for i := range t.rules {
		r := &t.rules[i]
		if r.classes != AllClasses || r.parts&PartClass != 0 {
			return true
		}
		if r.matchesAll() {
			return false
		}
	}
	return t.key&PartClass != 0
}

// UsesClass tells whether any answer of Identify depends on Key.Class.
func (t *Table) UsesClass() bool { return t.useClass }

// Normalize gives an application_name as a Key holds it: the pattern replaced, then cut to MaxApplication bytes without
// cutting a character. The pattern sees the first 1024 bytes.
func (t *Table) Normalize(application string) string {
	if t.pattern != nil {
		application = t.pattern.ReplaceAllString(cut(application, maxPatternInput), t.replace)
	}
	return cut(application, MaxApplication)
}

// cut shortens s to n bytes or, where that would cut a character of UTF-8, to the characters before.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return s[:i]
		}
	}
	return s[:n]
}

// Identify tells the route of k by the first rule that matches, else by the ordinary key. The strings of the answer are
// k's. It allocates nothing.
func (t *Table) Identify(k *Key) Identity {
	for i := range t.rules {
		if r := &t.rules[i]; r.matches(k) {
			return Identity{Rule: i, RuleID: r.id, Key: k.only(r.parts)}
		}
	}
	return Identity{Rule: -1, Key: k.only(t.key)}
}

// RuleIndex is the index in Options.Rules of the rule that an Identity's RuleID, made by this table or an earlier one,
// belongs to: -1 if it belongs to none, and false if its rule is gone.
func (t *Table) RuleIndex(ruleID string) (int, bool) {
	if ruleID == "" || ruleID == overflowID {
		return -1, true
	}
	if i, ok := t.byID[ruleID]; ok {
		return i, true
	}
	return -1, false
}
