package routing

import (
	"regexp"
	"strings"
	"testing"
)

func TestGlob(t *testing.T) {
	f := func(pattern, text string, want bool) {
		t.Helper()
		g := compileGlob(pattern)
		if got := g.match(text); got != want {
			t.Errorf("%q on %q: %v", pattern, text, got)
		}
	}
	f("", "", true)
	f("", "a", false)
	f("app", "app", true)
	f("app", "App", false)
	f("app", "app1", false)
	f("*", "", true)
	f("**", "anything/at all", true)
	f("app*", "app", true)
	f("app*", "xapp", false)
	f("*app", "my-app", true)
	f("a*a", "a", false)
	f("a*a", "aa", true)
	f("ab*ba", "aba", false)
	f("*-api-*", "eu-api-7", true)
	f("*-api-*", "api-", false)
	f("a*b*c", "a-b-b-c", true)
	f("a*bb*bb*c", "abbbc", false)
	f("a*bb*bb*c", "abbbbc", true)
	f("*ab*b", "ab", false)
	f("a?[b]", "a?[b]", true)
	f(`a\*`, `a\tail`, true)
	f("gr*ße", "große", true)
	f("*\xff*", "a\xffb", true)
}

// A matcher that goes back and tries again needs longer for these than anybody waits.
func TestGlobsThatWouldBacktrack(t *testing.T) {
	text := strings.Repeat("a", 200_000)
	for _, pattern := range []string{
		strings.Repeat("a*", 120) + "b",
		"*" + strings.Repeat("a*", 120) + "b*a",
		strings.Repeat("*aa", 80) + "*ab*",
		strings.Repeat("*", 250) + "b",
	} {
		g := compileGlob(pattern)
		if g.match(text) {
			t.Errorf("%.20q… matches a text without b", pattern)
		}
		if !g.match(text+"ab"+"a") && !g.match(text+"b") {
			t.Errorf("%.20q… does not match with a b", pattern)
		}
	}
}

func TestGlobLists(t *testing.T) {
	f := func(patterns []string, text string, want bool, canonical ...string) {
		t.Helper()
		l, c := compileGlobs(patterns)
		if l.match(text) != want || strings.Join(c, "\n") != strings.Join(canonical, "\n") {
			t.Errorf("%q on %q: %v, canonical %q", patterns, text, l.match(text), c)
		}
	}
	f(nil, "x", true)
	f([]string{"a", "*"}, "x", true)
	f([]string{"***"}, "", true)
	f([]string{"b", "a", "b"}, "x", false, "a", "b")
	f([]string{"x***y", "x*y"}, "x-y", true, "x*y")
	f([]string{""}, "", true, "")
	f([]string{""}, "x", false, "")
}

func FuzzGlob(f *testing.F) {
	f.Add("a*b*a", "abba")
	f.Add("**", "")
	f.Add("*\x00*\xff", "\x00\xff\xff")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 64 || len(text) > 256 {
			return
		}
		// Both as Latin-1, so that a byte of the text is one character of the regular expression.
		parts := strings.Split(latin1(pattern), "*")
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		naive := regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`)
		g := compileGlob(pattern)
		want := naive.MatchString(latin1(text))
		if got := g.match(text); got != want {
			t.Errorf("%q on %q: %v, as a regular expression %v", pattern, text, got, want)
		}
		if l, _ := compileGlobs([]string{pattern}); l.match(text) != want {
			t.Errorf("%q on %q: the canonical form matches otherwise", pattern, text)
		}
	})
}

func latin1(s string) string {
	r := make([]rune, len(s))
	for i := range len(s) {
		r[i] = rune(s[i])
	}
	return string(r)
}
