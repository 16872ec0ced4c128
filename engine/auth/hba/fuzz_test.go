package hba

import (
	"net/netip"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

// inPlace checks that problems have a message and a place within the file.
func inPlace(t *testing.T, text string, problems []configs.Problem) {
	t.Helper()
	lines := strings.Split(text, "\n")
	for _, p := range problems {
		if p.Message == "" || p.Place != here &&
			(p.Place.Line < 1 || p.Place.Line > len(lines) || p.Place.Col < 1 || p.Place.Col > len(lines[p.Place.Line-1])+1) {
			t.Fatalf("%q: %+v", text, p)
		}
	}
	if len(problems) > maxProblems+1 {
		t.Fatalf("%d problems", len(problems))
	}
}

// FuzzLoadRules: any file, which may read itself, gives rules or problems with
// places. What is accepted means the same when its words are written anew.
func FuzzLoadRules(f *testing.F) {
	for _, seed := range []string{
		decisionRules, "include f", "include_dir .", "host @f @f all trust", "local \\\n all\\\n\\\n all trust \\", "host all all 10.0.0.1 255.0.0.0 md5 # x",
		"hostssl \"a\"\"b\",/^x$ sameuser samenet cert map=\"m\",clientname=DN clientcert=verify-full", "local all \"all trust", "host /( +a name peer x\nhost samerole a 1/2 b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1<<12 {
			return
		}
		source := memory(map[string]string{"f": text})
		rules, problems := LoadRules(source, "f", here)
		if (rules == nil) == (problems == nil) {
			t.Fatalf("%q: %v, %v", text, rules, problems)
		}
		inPlace(t, text, problems)
		if rules == nil {
			return
		}
		var again strings.Builder
		for _, rec := range (&reader{files: source.Files}).file("f", 0, here) {
			again.WriteString(rec.write())
		}
		rewritten, problems := LoadRules(memory(map[string]string{"f": again.String()}), "f", here)
		if problems != nil {
			t.Fatalf("%q as %q: %v", text, again.String(), problems)
		}
		for _, name := range []string{"", "a", "x", "replication", text} {
			for _, addr := range []string{"", "10.0.0.1", "fd00::7:9"} {
				for _, tls := range []bool{false, true} {
					p := auth.Peer{User: name, Database: name, TLS: tls}
					if addr != "" {
						p.Addr = netip.MustParseAddr(addr)
					}
					d, ok := rules.Match(&p)
					if again, okAgain := rewritten.Match(&p); again != d || okAgain != ok {
						t.Fatalf("%q: %+v, as it was written anew %+v", text, d, again)
					}
				}
			}
		}
	})
}

// write writes the words of a line, quoted where they were or must be.
func (rec record) write() string {
	var line strings.Builder
	for _, f := range rec.fields {
		for i, w := range f {
			if i > 0 {
				line.WriteString(",")
			}
			if w.quoted || strings.ContainsAny(w.text, " \t\r,#\"\\@") {
				// A part in quotes behind a plain one does not make the word quoted.
				plain := 0
				if !w.quoted && w.text != "" && !strings.ContainsAny(w.text[:1], " \t\r,#\"\\@") {
					plain = 1
				}
				line.WriteString(w.text[:plain] + `"` + strings.ReplaceAll(w.text[plain:], `"`, `""`) + `"`)
				continue
			}
			line.WriteString(w.text)
		}
		line.WriteString(" ")
	}
	return line.String() + "\n"
}

// FuzzLoadMaps: the same of user name maps.
func FuzzLoadMaps(f *testing.F) {
	for _, seed := range []string{"m a b", "m /^(.*)x$ \\1y\ninclude f", "m \"a b\" all", "m /(x)?y \\1\nm y /z", "m a +b", "@f a b", "m /\\b c d"} {
		f.Add(seed, "m", "ay", "a")
	}
	f.Fuzz(func(t *testing.T, text, name, system, user string) {
		if len(text) > 1<<12 {
			return
		}
		maps, problems := LoadMaps(memory(map[string]string{"f": text}), "f", here)
		if (maps == nil) == (problems == nil) {
			t.Fatalf("%q: %v, %v", text, maps, problems)
		}
		inPlace(t, text, problems)
		if maps != nil && maps.Allows(name, system, user) && !strings.Contains(text, strings.ReplaceAll(name, `"`, `""`)) && !strings.ContainsAny(text, "\"\\") {
			t.Fatalf("%q allows by a map %q that is not in it", text, name)
		}
	})
}
