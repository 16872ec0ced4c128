package statements

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgkinetic/protocol/sqllex"
)

func environment(settings ...string) Environment {
	return NewEnvironment(func(name string) (string, bool) {
		for i := 0; i < len(settings); i += 2 {
			if settings[i] == name {
				return settings[i+1], true
			}
		}
		return "", false
	})
}

func TestEqualTextsAreOneStatement(t *testing.T) {
	s := NewStore()
	body := parseBody("select $1", 23)
	st := s.Intern(Environment{}, body)
	body[0] = 'S'
	if got := string(st.Text()); got != "select $1" {
		t.Errorf("the caller's bytes were kept: %q", got)
	}
	if s.Intern(Environment{}, parseBody("select $1", 23)) != st {
		t.Error("an equal one is another")
	}
	for name, other := range map[string][]byte{
		"text": parseBody("select $2", 23), "case": parseBody("Select $1", 23), "type": parseBody("select $1", 25),
		"types": parseBody("select $1", 23, 23), "no types": parseBody("select $1"), "empty": parseBody(""),
	} {
		if got := s.Intern(Environment{}, other); got == st || !bytes.Equal(got.Body(), other) {
			t.Errorf("another %s is the same", name)
		}
	}
	runtime.KeepAlive(st)
}

// PS-14: identity is the full text, whatever the hashes.
func TestPS14TextsThatShareAHashAreApart(t *testing.T) {
	s := NewStore()
	s.mask = 1
	c := NewCache(s)
	var all []*Statement
	for i := range 200 {
		all = append(all, s.Intern(Environment{}, parseBody(fmt.Sprint("select /* ", i, " */ 1"))))
	}
	for i, st := range all {
		body := parseBody(fmt.Sprint("select /* ", i, " */ 1"))
		if !bytes.Equal(st.Body(), body) || s.Intern(Environment{}, body) != st || c.Statement(Environment{}, body) != st {
			t.Fatalf("statement %d has become %q", i, st.Text())
		}
	}
	if s.Len() != 200 {
		t.Errorf("%d are known", s.Len())
	}
}

// PS-14, at length: 100 000 texts, by the store and by a server's copies.
func TestPS14HundredThousandTexts(t *testing.T) {
	s, h := NewStore(), NewHeld(500, 4<<20)
	c := NewCache(s)
	names := map[string]bool{}
	for i := range uint64(100_000) {
		body := parseBody(fmt.Sprint("select ", i, " as n"))
		st := c.Statement(Environment{}, body)
		if !bytes.Equal(st.Body(), body) {
			t.Fatalf("text %d has become %q", i, st.Text())
		}
		copied := h.Parse(i+1, st)
		names[string(copied.AppendName(nil))] = true
		h.Settle(executed(i+1), nil)
		if id, ok := h.NextClose(); ok {
			h.CloseSent(i + 1)
			if id != i-499 {
				t.Fatalf("%d is closed behind %d", id, i)
			}
		}
	}
	if len(names) != 100_000 || h.Len() != 500 {
		t.Errorf("%d names were given and %d copies kept", len(names), h.Len())
	}
}

func TestStatementSaysWhatTheLexerSaid(t *testing.T) {
	x := newTexts(t)
	st := x.of("copy t from stdin")
	if !st.MayCopy() || st.Flags()&sqllex.CopyFromStdin == 0 || st.Lexed().Class != sqllex.ClassCopy || st.Ops() != nil {
		t.Errorf("COPY is %+v", st.Lexed())
	}
	st = x.of("deallocate a; deallocate all")
	ops := st.Ops()
	if st.MayCopy() || len(ops) != 2 || ops[0].Kind != sqllex.OpDeallocate || !ops[0].NameIs(st.Text(), "a") || ops[1].Kind != sqllex.OpDeallocateAll {
		t.Errorf("DEALLOCATE is %+v", ops)
	}
	if plain := x.of("select 1"); st.Size() <= plain.Size()+len(st.Body())-len(plain.Body()) {
		t.Error("operations count for nothing")
	}
}

func TestMalformedParseIsNoStatement(t *testing.T) {
	c := NewCache(NewStore())
	for _, body := range [][]byte{
		nil, []byte("select 1"), []byte("select 1\x00"), []byte("select 1\x00\x00"), []byte("select 1\x00\x00\x01"),
		append(parseBody("select 1"), 0), parseBody("select 1", 23)[:14], []byte("select 1\x00\xff\xff\x00\x00\x00\x17"),
	} {
		if st := c.Statement(Environment{}, body); st != nil {
			t.Errorf("%q is %q", body, st.Body())
		}
	}
	if c.Statement(Environment{}, parseBody("", slices.Repeat([]uint32{23}, 65535)...)) == nil {
		t.Error("65535 types are too many")
	}
}

// A text whose meaning depends on settings is one statement for each of them.
func TestEnvironmentIsPartOfWhatDependsOnIt(t *testing.T) {
	s := NewStore()
	c := NewCache(s)
	german, american := environment("datestyle", "ISO, DMY"), environment("datestyle", "ISO, MDY")
	if german == american || german == (Environment{}) || environment("work_mem", "a") != (Environment{}) {
		t.Error("environments are not what they are made of")
	}
	for _, sql := range []string{
		"select '1/2/2026'::date", "select $$x$$", "select $tag$x$tag$", "select $", "select \xe9", "select a = NULL", "select a=nUll",
	} {
		var all []*Statement
		for _, e := range []Environment{{}, german, american} {
			st := s.Intern(e, parseBody(sql))
			if slices.Contains(all, st) || s.Intern(e, parseBody(sql)) != st || c.Statement(e, parseBody(sql)) != st {
				t.Errorf("%q is the same in two environments, or two in one", sql)
			}
			all = append(all, st)
		}
		for _, st := range all {
			if s.Under(german, st) != all[1] || c.Under(german, st) != all[1] || c.Under(german, st) != all[1] || c.Under(Environment{}, st) != all[0] {
				t.Errorf("%q is not what it is in another environment", sql)
			}
		}
	}
	for _, sql := range []string{"select $1, $2 from t where a = $3", "select nu, ll", "select 1 -- nul"} {
		st := s.Intern(german, parseBody(sql))
		if s.Intern(american, parseBody(sql)) != st || c.Statement(Environment{}, parseBody(sql)) != st || c.Under(american, st) != st || s.Under(american, st) != st {
			t.Errorf("%q depends on the environment", sql)
		}
	}
}

func TestStoreForgetsWhatNobodyHolds(t *testing.T) {
	s := NewStore()
	s.mask = 0xff // chains whose members die one by one
	kept := s.Intern(Environment{}, parseBody("select 'kept'"))
	for range 3 {
		for i := range 5000 {
			s.Intern(Environment{}, parseBody(fmt.Sprint("select ", i)))
		}
	}
	for range 100 {
		runtime.GC()
		if s.Len() == 1 {
			break
		}
	}
	if s.Len() != 1 || s.Intern(Environment{}, parseBody("select 'kept'")) != kept {
		t.Errorf("%d are known", s.Len())
	}
	runtime.KeepAlive(kept)
}

// The dead of a chain go, the others stay.
func TestStoreForgetsOneOfAChain(t *testing.T) {
	s := NewStore()
	s.mask = 0
	var kept []*Statement
	for i := range 6 {
		st := s.Intern(Environment{}, parseBody(fmt.Sprint("select ", i)))
		if i%2 == 0 {
			kept = append(kept, st)
		}
	}
	for range 100 {
		runtime.GC()
		if s.Len() == 3 {
			break
		}
	}
	for i, st := range kept {
		if s.Intern(Environment{}, parseBody(fmt.Sprint("select ", 2*i))) != st {
			t.Errorf("statement %d was forgotten", 2*i)
		}
	}
	if s.Len() != 3 {
		t.Errorf("%d are known", s.Len())
	}
}

// An equal statement that was made before the cleanup of a dead one ran stays.
func TestStoreKeepsTheSuccessorOfADeadOne(t *testing.T) {
	s := NewStore()
	st := s.Intern(Environment{}, parseBody("select 1"))
	s.forget(st.hash)
	s.forget(st.hash + 1)
	if s.Len() != 1 || s.Intern(Environment{}, parseBody("select 1")) != st {
		t.Error("it was forgotten")
	}
}

func TestStoreIsSharedByGoroutines(t *testing.T) {
	s := NewStore()
	var wg sync.WaitGroup
	found := make([][]*Statement, 4)
	for g := range found {
		wg.Go(func() {
			c := NewCache(s)
			for i := range 2000 {
				st := c.Statement(environment("timezone", "UTC"), parseBody(fmt.Sprint("select '", i%100, "'")))
				if i < 100 {
					found[g] = append(found[g], st)
				} else if st != found[g][i%100] {
					t.Error("two statements of one text")
				}
			}
		})
	}
	wg.Wait()
	for _, other := range found[1:] {
		if !slices.Equal(found[0], other) {
			t.Error("two goroutines have two statements of one text")
		}
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := NewCache(NewStore())
	check := func() {
		t.Helper()
		n := 0
		for _, s := range c.slots {
			if s.statement != nil {
				n += s.statement.Size()
			}
		}
		if n != c.bytes || n > cacheBytes {
			t.Fatalf("%d bytes are kept, counted as %d", n, c.bytes)
		}
	}
	large := parseBody("select '" + strings.Repeat("x", cacheLargest) + "'")
	if st := c.Statement(Environment{}, large); c.Statement(Environment{}, large) != st || c.bytes != 0 {
		t.Error("a large one is kept")
	}
	for i := range 4000 {
		c.Statement(Environment{}, parseBody(fmt.Sprint("select ", i, strings.Repeat(" ", i*7%9000))))
		check()
	}
	if c.bytes == 0 {
		t.Error("nothing is kept")
	}
}

func FuzzStatement(f *testing.F) {
	f.Add(parseBody("select $1", 23), false)
	f.Add([]byte("select 1\x00\x00\x01"), true)
	f.Add(parseBody("set a to 'b'"), true)
	s := NewStore()
	c := NewCache(s)
	utc := environment("timezone", "UTC")
	f.Fuzz(func(t *testing.T, body []byte, set bool) {
		var env Environment
		if set {
			env = utc
		}
		st := c.Statement(env, body)
		// The format, read another way: everything up to the first NUL, a count,
		// and so many times four bytes.
		text, rest, found := bytes.Cut(body, []byte{0})
		valid := found && len(rest) >= 2 && (len(rest)-2)%4 == 0 && (len(rest)-2)/4 == int(binary.BigEndian.Uint16(append(rest[:2:2], 0, 0)))
		if valid != (st != nil) {
			t.Fatalf("valid %v, statement %v", valid, st)
		}
		if st == nil {
			return
		}
		if !bytes.Equal(st.Body(), body) || !bytes.Equal(st.Text(), text) || s.Intern(env, body) != st || c.Under(env, st) != st {
			t.Fatalf("%q became %q", body, st.Body())
		}
	})
}

// What names mean is a part of every text: one statement for each search_path and role, and for each client that stands
// alone.
func TestNamesArePartOfEveryStatement(t *testing.T) {
	s := NewStore()
	c := NewCache(s)
	one := environment("search_path", "one")
	all := []Environment{{}, one, environment("search_path", "two"), environment("role", "one"), one.Alone("7/1"), one.Alone("7/2")}
	var seen []*Statement
	for _, e := range all {
		st := s.Intern(e, parseBody("select v from t"))
		if slices.Contains(seen, st) || s.Intern(e, parseBody("select v from t")) != st || c.Statement(e, parseBody("select v from t")) != st {
			t.Errorf("under %+v", e)
		}
		for i, other := range all[:len(seen)] {
			if s.Under(other, st) != seen[i] || c.Under(other, st) != seen[i] || c.Under(e, seen[i]) != st {
				t.Errorf("from %+v to %+v and back", e, other)
			}
		}
		seen = append(seen, st)
	}
}
