package configs

import "strings"

// Nearest returns the candidate with the least edit distance to a word, letter case and '-' for '_' not counted; the
// first of several. It is empty only without candidates.
func Nearest(word string, candidates []string) string {
	word = foldKey(word)
	best, least := "", -1
	for _, c := range candidates {
		if d := distance(word, foldKey(c)); least < 0 || d < least {
			best, least = c, d
		}
	}
	return best
}

func foldKey(key string) string { return strings.ReplaceAll(strings.ToLower(key), "-", "_") }

// distance is Levenshtein's: the fewest bytes to insert, delete or replace. Words are cut, since a key of a megabyte is
// near to nothing.
func distance(a, b string) int {
	const longest = 100
	a, b = a[:min(len(a), longest)], b[:min(len(b), longest)]
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
