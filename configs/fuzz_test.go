package configs

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// fuzzFormat checks that a parser and the checker behind it take any bytes: no panic, problems with a position inside the
// file, and values without problems always decode.
func fuzzFormat(f *testing.F, name string, parse func([]byte, Place) (*node, []Problem)) {
	f.Fuzz(func(t *testing.T, data []byte) {
		if !utf8.Valid(data) || len(data) > 1<<16 {
			return
		}
		l := loader{origins: &Origins{places: map[string]Place{}}, merged: newLayers()}
		l.layer(func(*checker) map[string]any { return defaults() })
		l.layer(func(c *checker) map[string]any {
			root, problems := parse(data, Place{Source: SourceFile, Name: name})
			tree := c.document(root)
			c.problems = append(c.problems, problems...)
			return tree
		})
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		for _, p := range l.problems {
			if p.Place.Line < 1 || p.Place.Line > lines+1 || p.Place.Col < 0 || p.Message == "" {
				t.Fatalf("problem without a place in %d lines: %+v", lines, p)
			}
		}
		if len(l.problems) == 0 && l.decode() == nil {
			t.Fatalf("accepted but does not decode: %v", l.problems)
		}
	})
}

func FuzzLoadYAML(f *testing.F) {
	for _, seed := range []string{
		fullYAML, "", "server: {loops: 1}", "a: &a [*a]", "<<: {server: {}}", "? [a]: b", "server: !!binary aGk=", "--- a\n--- b", "log:\n  level: |\n    info\n", "\ufeffa: b", "a: \"\\0\"", "databases: [{name: a, hosts: [\"[::1]:1\"]}]",
		"routes: [{name: a, match: {client_addr: \"::ffff:1.2.3.4/100\", database: [\"*\"]}, split_by: [user]}]", "routes: [{match: []}]",
		"admission: {application_name_pattern: \"(?P<a>x)\", application_name_replace: \"${a}$$\"}",
	} {
		f.Add([]byte(seed))
	}
	fuzzFormat(f, "f.yaml", parseYAML)
}

func FuzzLoadTOML(f *testing.F) {
	for _, seed := range []string{
		fullTOML, "", "[server]\nloops = 1", "a.b.c = {d = [1, {e = 2}]}", "[[a]]\n[[a.b]]\n[a.b.c]", "x = '''\n'''", "x = 1979-05-27T07:32:00Z", "[a]\n[a]", "a = 1\na.b = 2", "\"\" = 0x1F", "[[databases]]\nname='a'\n[databases]\nname='b'",
		"[[routes]]\nname='a'\n[routes.match]\nclient_addr='fe80::1%e'\n[[routes]]\nmatch.user=['x']", "[[routes]]\n[[routes.match]]\nuser='a'",
	} {
		f.Add([]byte(seed))
	}
	fuzzFormat(f, "f.toml", parseTOML)
}
