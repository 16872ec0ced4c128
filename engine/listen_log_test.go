package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// listenScript feeds a log with words: +a listens, -a unlistens, -* does so for all; begin, commit, rollback, chain (COMMIT
// AND CHAIN), sp:a, rel:a, to:a, err; I, T, E are ReadyForQuery. It gives what was committed, a group in brackets.
func listenScript(l *listenLog, script string) string {
	var out []string
	for word := range strings.FieldsSeq(script) {
		name := word[strings.IndexByte(word, ':')+1:]
		switch {
		case word == "-*":
			l.execute(listenOp{kind: unlistenEvery})
		case word[0] == '+':
			l.execute(listenOp{listenName, word[1:]})
		case word[0] == '-':
			l.execute(listenOp{unlistenName, word[1:]})
		case word == "begin":
			l.begin()
		case word == "commit", word == "chain":
			l.commit(word == "chain")
		case word == "rollback":
			l.rollback(false)
		case strings.HasPrefix(word, "sp:"):
			l.savepoint(name)
		case strings.HasPrefix(word, "rel:"):
			l.release(name)
		case strings.HasPrefix(word, "to:"):
			l.rollbackTo(name)
		case word == "err":
			l.fail()
		default:
			l.ready(word[0])
			if word == "I" {
				if ops := l.take(); len(ops) > 0 {
					out = append(out, showOps(ops))
				}
			}
		}
	}
	return strings.Join(out, " ")
}

func showOps(ops []listenOp) string {
	var all []string
	for _, op := range ops {
		all = append(all, [...]string{"+" + op.name, "-" + op.name, "-*", "!"}[op.kind])
	}
	return "[" + strings.Join(all, " ") + "]"
}

func TestListenLogFollowsTransactions(t *testing.T) {
	for _, c := range []struct{ script, want string }{
		{"+a I", "[+a]"},
		{"+a -b -* +c I", "[-* +c]"},
		{"+a err I", ""},
		{"+a I +b err I", "[+a]"},
		{"+a commit err I", "[+a]"},
		{"+a rollback +b I", "[+b]"},
		{"begin +a T I", "[+a]"}, // a COMMIT that was not seen
		{"begin T +a T commit I", "[+a]"},
		{"begin T +a T rollback I", ""},
		{"begin T +a err E commit I", ""},
		{"begin T +a err E rollback I +b I", "[+b]"},
		{"+a begin T +b T commit I", "[+a +b]"}, // one group: what lies before BEGIN joins the block
		{"begin T +a chain T +b err E rollback I", "[+a]"},
		{"begin +a commit +b err I", "[+a]"},
		{"begin T sp:s +a T to:s T commit I", ""},
		{"begin T +a sp:s +b err E to:s T commit I", "[+a]"},
		{"begin T +a sp:s +b rel:s T commit I", "[+a +b]"},
		{"begin T +a sp:s +b sp:s +c to:s T commit I", "[+a +b]"},
		{"begin T +a sp:s +b sp:s +c rel:s to:s T commit I", "[+a]"},
		{"begin T +a sp:s +b sp:t +c to:s +d to:s T commit I", "[+a]"},
		{"begin T +a sp:s +b sp:t -* rel:t T commit I", "[-*]"}, // what lies before a mark is outdated as well once committed
		{"begin T sp:s +a sp:t +b rel:s T commit I", "[+a +b]"},
		{"begin T sp:s +a sp:t +b to:s +c T commit I", "[+c]"},
		{"begin T +a sp:s -* to:s T commit I", "[+a]"},
	} {
		if got := listenScript(new(listenLog), c.script); got != c.want {
			t.Errorf("%s: committed %s, want %s", c.script, got, c.want)
		}
	}
}

// A transaction that repeats itself stays small; one that does not is told so.
func TestListenLogIsBounded(t *testing.T) {
	var l listenLog
	for i := range 10 * listenOpsMax {
		l.execute(listenOp{listenKind(i % 2), fmt.Sprint(i % 7)})
		if len(l.pending) > listenOpsMax {
			t.Fatalf("%d operations are kept", len(l.pending))
		}
	}
	l.ready('I')
	ops := l.take()
	if final := listenNet(ops); len(final.names) != 7 || final.tooMany {
		t.Errorf("kept %d names, too many %v", len(final.names), final.tooMany)
	}
	for i := range 2 * listenOpsMax {
		l.execute(listenOp{listenName, fmt.Sprint(i)})
		l.savepoint(fmt.Sprint(i))
	}
	if len(l.pending) > listenOpsMax || len(l.marks) > listenOpsMax {
		t.Errorf("%d operations and %d savepoints are kept", len(l.pending), len(l.marks))
	}
	l.ready('I')
	if ops := l.take(); !listenNet(ops).tooMany || len(ops) > listenOpsMax {
		t.Errorf("%d operations without a word that some are missing", len(ops))
	}
	if l.pending != nil || l.marks != nil || l.committed != nil {
		t.Error("something is kept after the end of the transaction")
	}
}

// The log against a model that copies the whole set at every savepoint.
func TestListenLogAgainstCopies(t *testing.T) {
	type level struct {
		name string
		set  map[string]bool
	}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		var l listenLog
		committed, heard := map[string]bool{}, map[string]bool{}
		now, block, failed := map[string]bool{}, false, false
		var levels []level
		reset := func(open bool) { now, levels, block, failed = clone(committed), nil, open, false }
		ready := func() {
			status := byte('I')
			switch {
			case failed:
				status = 'E'
			case block:
				status = 'T'
			default:
				committed = clone(now)
				reset(false)
			}
			l.ready(status)
			if status == 'I' && rnd.IntN(3) == 0 {
				return // another request is under way
			}
			if status == 'I' {
				applyNet(heard, l.take())
			}
			if status == 'I' && !equal(heard, committed) {
				t.Fatalf("seed %d: heard %v, want %v", seed, heard, committed)
			}
		}
		for range 60 {
			name := string(rune('a' + rnd.IntN(3)))
			at := -1
			for i, v := range levels {
				if v.name == name {
					at = i
				}
			}
			switch k := rnd.IntN(12); {
			case k == 0:
				if rnd.IntN(2) == 0 && !failed {
					committed = clone(now)
					l.commit(false)
				} else {
					l.rollback(false)
				}
				reset(false)
			case k == 1 && !failed:
				block = true
				l.begin()
			case k == 2 && block && at >= 0:
				now, levels, failed = clone(levels[at].set), levels[:at+1], false
				l.rollbackTo(name)
			case k == 3:
				l.fail()
				if failed = block; !block {
					reset(false)
				}
			case k < 6:
				ready()
			case failed:
			case k == 6 && block:
				levels = append(levels, level{name, clone(now)})
				l.savepoint(name)
			case k == 7 && block && at >= 0:
				levels = levels[:at]
				l.release(name)
			case k == 8:
				clear(now)
				l.execute(listenOp{kind: unlistenEvery})
			case k == 9:
				delete(now, name)
				l.execute(listenOp{unlistenName, name})
			default:
				now[name] = true
				l.execute(listenOp{listenName, name})
			}
		}
	}
}

func clone(m map[string]bool) map[string]bool {
	c := map[string]bool{}
	for k := range m {
		c[k] = true
	}
	return c
}

func equal(a, b map[string]bool) bool {
	keys := func(m map[string]bool) (all []string) {
		for k := range m {
			all = append(all, k)
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(keys(a), keys(b))
}

// applyNet carries out what listenNet makes of ops.
func applyNet(set map[string]bool, ops []listenOp) {
	n := listenNet(ops)
	for name := range set {
		if n.removes(name) {
			delete(set, name)
		}
	}
	for name, listens := range n.names {
		if listens {
			set[name] = true
		}
	}
}
