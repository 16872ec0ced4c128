package routing

import (
	"slices"
	"strings"
)

// glob is a compiled pattern: `*` stands for any bytes or none, everything else for itself. There is no escape.
//
// The text must begin with the pattern's first literal and end with its last; those between are looked for from left to
// right, each at the first place where it fits. That first place never rules out a match, so nothing is tried twice: each
// byte of the text is passed once by one literal's search, whatever the pattern.
type glob struct {
	first  string   // up to the first star, or the whole pattern if it has none
	middle []string // between stars, none empty
	last   string   // after the last star
	star   bool
}

func compileGlob(pattern string) glob {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return glob{first: pattern}
	}
	last := len(parts) - 1
	middle := slices.DeleteFunc(slices.Clone(parts[1:last]), func(s string) bool { return s == "" })
	return glob{first: parts[0], middle: middle, last: parts[last], star: true}
}

func (g *glob) match(s string) bool {
	if !g.star {
		return s == g.first
	}
	// Both ends, without overlap: "a*a" is no pattern for "a".
	if len(s) < len(g.first)+len(g.last) || !strings.HasPrefix(s, g.first) || !strings.HasSuffix(s, g.last) {
		return false
	}
	s = s[len(g.first) : len(s)-len(g.last)]
	for _, part := range g.middle {
		i := strings.Index(s, part)
		if i < 0 {
			return false
		}
		s = s[i+len(part):]
	}
	return true
}

// globs matches what one of its patterns matches; an empty list matches everything.
type globs []glob

// compileGlobs also gives the canonical form of the patterns: sorted, each once, empty if one of them is everything.
func compileGlobs(patterns []string) (globs, []string) {
	canonical := make([]string, 0, len(patterns))
	for _, p := range patterns {
		for strings.Contains(p, "**") {
			p = strings.ReplaceAll(p, "**", "*")
		}
		if p == "*" {
			return nil, nil
		}
		canonical = append(canonical, p)
	}
	slices.Sort(canonical)
	canonical = slices.Compact(canonical)
	compiled := make(globs, len(canonical))
	for i, p := range canonical {
		compiled[i] = compileGlob(p)
	}
	return compiled, canonical
}

func (l globs) match(s string) bool {
	for i := range l {
		if l[i].match(s) {
			return true
		}
	}
	return len(l) == 0
}
