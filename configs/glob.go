package configs

import "strings"

// globCovers reports whether one pattern of a match fits everything that another one fits. A '*' of the second is fitted
// by a '*' of the first only, which is exact: every text that the second fits has any bytes in that place.
func globCovers(pattern, other string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == other
	}
	first, last := parts[0], parts[len(parts)-1]
	if !strings.HasPrefix(other, first) || !strings.HasSuffix(other[len(first):], last) {
		return false
	}
	rest := other[len(first) : len(other)-len(last)]
	for _, part := range parts[1 : len(parts)-1] { // the leftmost place leaves most for the parts behind
		_, behind, found := strings.Cut(rest, part)
		if !found {
			return false
		}
		rest = behind
	}
	return true
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
