package session

import (
	"sync/atomic"
	"time"

	"pgkinetic/protocol"
)

// Bounds of one pool's verdicts.
const (
	maxVerdicts     = 512
	maxVerdictBytes = 64 << 10
	// refusalHold is how long a refusal is believed, in nanoseconds: what was
	// wrong may be put right (a role created, a library loaded).
	refusalHold = int64(2 * time.Second)
)

// kind of a verdict.
type kind uint8

const (
	unknown   kind = iota
	accepted       // value is the canonical one
	unapplied      // accepted, not applied: PostgreSQL takes it at connection start only (55P02)
	refused        // refusal tells why
)

type verdict struct {
	kind    kind
	value   string
	refusal *SettingError
	until   int64 // refused: monotonic nanoseconds
}

// Verdicts are what PostgreSQL said about startup settings, for one pool:
// another database or user may get other answers. The zero value is empty. Any
// loop may call any method: readers take one atomic load, a writer copies the
// table (at most maxVerdicts entries, once per value never seen before) and
// swaps it in by CAS.
//
// Invariant: at most maxVerdicts entries and maxVerdictBytes bytes of names and
// values; the oldest goes first.
type Verdicts struct {
	table atomic.Pointer[verdictTable]
}

type verdictTable struct {
	byKey map[protocol.Param]verdict
	order []protocol.Param
	bytes int
}

// get returns the verdict on s.Name = s.Value; kind unknown when there is none.
func (v *Verdicts) get(s protocol.Param, now int64) verdict {
	t := v.table.Load()
	if t == nil {
		return verdict{}
	}
	d := t.byKey[s]
	if d.kind == refused && now >= d.until {
		return verdict{}
	}
	return d
}

// put records a verdict.
func (v *Verdicts) put(s protocol.Param, d verdict) {
	if verdictSize(s, d) > maxVerdictBytes/4 {
		return // one huge value must not drive out all others
	}
	for {
		old := v.table.Load()
		if v.table.CompareAndSwap(old, old.with(s, d)) {
			return
		}
	}
}

// Clear forgets all verdicts, for instance after a batch failed: what was
// accepted once no longer is.
func (v *Verdicts) Clear() { v.table.Store(nil) }

func (t *verdictTable) with(s protocol.Param, d verdict) *verdictTable {
	next := &verdictTable{byKey: map[protocol.Param]verdict{s: d}, bytes: verdictSize(s, d)}
	if t == nil {
		next.order = []protocol.Param{s}
		return next
	}
	// Newest first, as far as the bounds reach.
	for i := len(t.order) - 1; i >= 0 && len(next.byKey) < maxVerdicts; i-- {
		key := t.order[i]
		size := verdictSize(key, t.byKey[key])
		if key == s || next.bytes+size > maxVerdictBytes {
			continue
		}
		next.byKey[key] = t.byKey[key]
		next.bytes += size
		next.order = append(next.order, key)
	}
	for i, j := 0, len(next.order)-1; i < j; i, j = i+1, j-1 {
		next.order[i], next.order[j] = next.order[j], next.order[i]
	}
	next.order = append(next.order, s)
	return next
}

func verdictSize(s protocol.Param, d verdict) int {
	n := len(s.Name) + len(s.Value) + len(d.value)
	if d.refusal != nil {
		f := &d.refusal.Fields
		n += len(f.Message) + len(f.Detail) + len(f.Hint)
	}
	return n
}
