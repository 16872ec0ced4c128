package hba

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
)

// names are the databases or the users of a rule.
type names struct {
	all      bool
	sameUser bool     // the database that is called as the user is
	exact    []string // sorted
	patterns []*regexp.Regexp
}

// match tells whether a name is among them; user is whom sameUser means.
func (n *names) match(name, user string) bool {
	if n.all || n.sameUser && name == user {
		return true
	}
	if _, found := slices.BinarySearch(n.exact, name); found {
		return true
	}
	return slices.ContainsFunc(n.patterns, func(p *regexp.Regexp) bool { return p.MatchString(name) })
}

// databases reads the second field of a rule. Its keyword replication matches
// nothing here: a client that asks for replication is refused before any rule.
func (r *reader) databases(f field) names {
	return r.names(f, func(n *names, w word) bool {
		switch {
		case w.is("sameuser"):
			n.sameUser = true
		case w.is("samerole"), w.is("samegroup"):
			r.fail(w.place, "%s needs the roles of the server, which pg-kinetic does not know; name the databases, or use sameuser", w.text)
		default:
			return w.is("replication")
		}
		return true
	})
}

// users reads the third field of a rule.
func (r *reader) users(f field) names {
	return r.names(f, func(_ *names, w word) bool { return r.isGroup(w) })
}

// isGroup refuses the members of a group.
func (r *reader) isGroup(w word) bool {
	if w.quoted || w.text == "" || w.text[0] != '+' {
		return false
	}
	r.fail(w.place, "%s means the members of a role, which pg-kinetic does not know; name the users, or keep their names in a file (@file), or use a regular expression", w.text)
	return true
}

// names reads a field of names; special takes the words that are none.
func (r *reader) names(f field, special func(*names, word) bool) names {
	var n names
	for _, w := range f {
		switch {
		case w.is("all"):
			n.all = true
		case special(&n, w):
		case isPattern(w):
			if p := r.pattern(w); p != nil {
				n.patterns = append(n.patterns, p)
			}
		default:
			n.exact = append(n.exact, w.text)
		}
	}
	slices.Sort(n.exact)
	n.exact = slices.Clip(slices.Compact(n.exact))
	return n
}

// maxPattern is how long a regular expression may be, in bytes.
const maxPattern = 1024

// isPattern tells whether a word is a regular expression; quotes do not matter.
func isPattern(w word) bool { return w.text != "" && w.text[0] == '/' }

// pattern compiles a regular expression, nil if it is none.
func (r *reader) pattern(w word) *regexp.Regexp {
	p, err := compile(w.text[1:])
	if err != nil {
		r.fail(w.place, "invalid regular expression %q: %v", w.text[1:], err)
	}
	return p
}

// compile compiles a regular expression that means the same to PostgreSQL. What
// Go does not have is an error of its own; what means something else is refused
// here, and "." matches a newline as it does there.
func compile(expr string) (*regexp.Regexp, error) {
	if len(expr) > maxPattern {
		return nil, fmt.Errorf("it is longer than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(expr, syntax.Perl)
	if err == nil && hasWordBoundary(parsed) {
		return nil, errors.New(`\b and \B, which PostgreSQL reads as a backspace and a backslash, are not supported`)
	}
	var p *regexp.Regexp
	if err == nil {
		p, err = regexp.Compile("(?s)" + expr)
	}
	var known *syntax.Error
	if errors.As(err, &known) {
		return nil, errors.New(known.Code.String())
	}
	return p, err
}

func hasWordBoundary(re *syntax.Regexp) bool {
	return re.Op == syntax.OpWordBoundary || re.Op == syntax.OpNoWordBoundary || slices.ContainsFunc(re.Sub, hasWordBoundary)
}
