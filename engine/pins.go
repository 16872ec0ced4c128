package engine

// Pins: why a client keeps its backend outside a transaction. What it has made
// there lives in that backend's session and nowhere else.
//
// State: client.pins, a bit per reason, and in its pool the list of those who pin
// (pinned). Owner: the client's loop; the pool's list is under its own mutex, which
// is taken when a client's first pin begins and when its last one ends.
//
// Invariants:
//   - a client is in its pool's list exactly while it has a pin other than
//     pinSticky;
//   - the list never has more entries than the limit of the client that asked to
//     get in (max_pinned): who finds it full is refused, ERROR 53300;
//   - a pin begins when the statement that may cause it is sent, and ends when its
//     cause certainly has: DISCARD ALL and its like (client.undone), or the client
//     leaves. What a client leaves is in server.left until it is undone.

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
	"pgkinetic/protocol/sqllex"
)

// pinSet is a set of reasons, a bit each.
type pinSet uint8

const (
	pinTempTable    pinSet = 1 << iota
	pinAdvisoryLock        // a session-level one
	pinHoldCursor          // DECLARE … WITH HOLD
	pinSQLPrepare          // PREPARE, or an EXECUTE
	pinLargeParse          // a named Parse that is too large to be kept, or all where they are not tracked
	pinUnknown             // a library was loaded, or a setting cannot be followed
	pinSticky              // session mode: held until the client leaves

	pinKinds  = 6
	pinReason = pinSticky - 1 // all that stand in the pool's list
)

var pinNames = [pinKinds]string{"temp_table", "advisory_lock", "with_hold", "sql_prepare", "large_parse", "unknown"}

// String names the reasons, in a fixed order.
func (p pinSet) String() string {
	var names []string
	for i, name := range pinNames {
		if p&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// pinsOf gives the reasons for which a text with these flags pins.
func pinsOf(f sqllex.Flags) (p pinSet) {
	if f&pinFlags == 0 {
		return 0
	}
	for _, k := range [...]struct {
		flags sqllex.Flags
		pin   pinSet
	}{
		{sqllex.TempTable, pinTempTable},
		{sqllex.AdvisoryLock, pinAdvisoryLock},
		{sqllex.WithHold, pinHoldCursor},
		{sqllex.Prepare | sqllex.Execute, pinSQLPrepare},
		{sqllex.Load, pinUnknown},
	} {
		if f&k.flags != 0 {
			p |= k.pin
		}
	}
	return p
}

// pinsOfText is pinsOf for a text that is there as a whole: one temporary table that
// is dropped when its transaction ends does not outlive it.
func pinsOfText(f sqllex.Flags, sql []byte) pinSet {
	p := pinsOf(f)
	if p&pinTempTable != 0 && onCommitDrop.Match(sql) && len(tempObject.FindAllIndex(sql, 2)) == 1 {
		p &^= pinTempTable
	}
	return p
}

var (
	onCommitDrop = regexp.MustCompile(`(?i)\bon\s+commit\s+drop\s*;?\s*$`)
	tempObject   = regexp.MustCompile(`(?i)temp`)
)

// pinFlags are the statements that leave state on a backend which its client
// expects to find again, and which cannot be made anew on another.
const pinFlags = sqllex.Prepare | sqllex.Execute | sqllex.WithHold | sqllex.TempTable | sqllex.AdvisoryLock | sqllex.Load

// pinned are those who pin the backends of one pool.
type pinned struct {
	n       atomic.Int64 // entries of holders, readable without the mutex
	mu      sync.Mutex
	holders map[uint64]*holding // by the client's number
}

// holding is an entry of the list.
type holding struct {
	row     view.Pin // but its reasons and its age
	since   int64
	reasons pinSet
}

// mayPin tells whether c may get pins for these reasons; the answer holds for now,
// pin decides.
func (c *client) mayPin(p pinSet) bool {
	return p == 0 || c.pins != 0 || c.up.pool.pinned.n.Load() < int64(c.limits.Pinnable())
}

// pin notes that c keeps its backend for these reasons from now on. false: the
// pool has as many such clients as it may; nothing is changed then.
func (c *client) pin(p pinSet) bool {
	if p&^c.pins == 0 || c.pins&pinSticky != 0 { // session mode keeps the backend anyway
		return true
	}
	if c.up.pool.mode == modeStatement { // a text too large to be refused before it was sent
		c.srv.left |= leftovers(p)
		return true
	}
	if c.pins&pinReason == 0 && !c.enterPinned(p) {
		c.srv.left |= leftovers(p) // it may be there nevertheless: another client is not to meet it
		return false
	}
	for i := range pinKinds {
		if p&^c.pins&(1<<i) != 0 {
			c.w.stats.pins[i].inc()
			c.w.stats.pinned[i].Add(1)
		}
	}
	if c.pins&pinReason != 0 {
		c.up.pool.pinned.change(c.id, c.pins|p)
	}
	c.pins |= p
	return true
}

func (c *client) enterPinned(p pinSet) bool {
	k := &c.up.pool.pinned
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.holders) >= c.limits.Pinnable() {
		return false
	}
	if k.holders == nil {
		k.holders = map[uint64]*holding{}
	}
	k.holders[c.id] = &holding{since: c.w.now(), reasons: p, row: view.Pin{
		Client: c.id, Pool: c.up.pool.title(), Database: c.up.tenant.Database, User: c.up.tenant.User,
		ApplicationName: c.application(), Route: c.route.label, ServerPID: c.srv.pid,
	}}
	k.n.Store(int64(len(k.holders)))
	return true
}

func (k *pinned) change(id uint64, p pinSet) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holders[id].reasons = p & pinReason
}

// unpin ends pins of c for these reasons.
func (c *client) unpin(p pinSet) {
	p &= c.pins & pinReason
	if p == 0 {
		return
	}
	for i := range pinKinds {
		if p&(1<<i) != 0 {
			c.w.stats.pinned[i].Add(-1)
		}
	}
	c.pins &^= p
	k := &c.up.pool.pinned
	if c.pins&pinReason != 0 {
		k.change(c.id, c.pins)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.holders, c.id)
	k.n.Store(int64(len(k.holders)))
}

// pinRefused is what a client is told whose statement would pin one backend too
// many.
func (c *client) pinRefused(p pinSet) *protocol.ErrorFields {
	k := &c.up.pool.pinned
	rows := k.rows(c.w.now())
	detail := "held by:"
	for i, r := range rows {
		if i == 8 {
			detail += fmt.Sprintf(" and %d more", len(rows)-i)
			break
		}
		detail += fmt.Sprintf(" client %d (%s, user %s, for %.0f s);", r.Client, r.Reasons, r.User, r.SinceMs/1e3)
	}
	return &protocol.ErrorFields{
		Severity: "ERROR", Code: protocol.CodeTooManyConnections,
		Message: fmt.Sprintf("pg-kinetic: no more backends may be pinned (%s): %d of %d in pool %s", p, len(rows),
			c.limits.Pinnable(), c.up.pool.title()),
		Detail: strings.TrimSuffix(detail, ";"),
		Hint:   "Do without session state, raise max_pinned, or use pool_mode: session.",
	}
}

func (k *pinned) rows(now int64) []view.Pin {
	k.mu.Lock()
	defer k.mu.Unlock()
	var rows []view.Pin
	for _, r := range k.holders {
		row := r.row
		row.Reasons, row.SinceMs = r.reasons.String(), float64(now-r.since)/1e6
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b view.Pin) int { return cmp.Compare(a.Client, b.Client) })
	return rows
}

// Pinning shows who pins, pool by pool. Any goroutine.
func (e *Engine) Pinning() (rows []view.Pin) {
	now := reactor.Now()
	for _, p := range *e.registry.all.Load() {
		rows = append(rows, p.pinned.rows(now)...)
	}
	return rows
}
