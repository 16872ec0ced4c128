package configs

import "strings"

// globCovers reports whether one pattern of a match fits everything that another one fits. A '*' of the second is fitted
// by a '*' of the first only, which is exact: every text that the second fits has any bytes in that place.
func globCovers(pattern, other string) bool {
	part, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == other
	}
	other, begins := strings.CutPrefix(other, part)
	for begins {
		if part, rest, star = strings.Cut(rest, "*"); !star {
			return strings.HasSuffix(other, part)
		}
		_, other, begins = strings.Cut(other, part) // the leftmost place leaves most for the parts behind
	}
	return false
}

// anyCovers reports whether one of the patterns covers another one; no patterns cover everything.
func anyCovers(patterns []string, other string) bool {
	for _, p := range patterns {
		if globCovers(p, other) {
			return true
		}
	}
	return len(patterns) == 0
}

func isGlob(pattern string) bool { return strings.Contains(pattern, "*") }
