package engine

// Prepared statements of a client that owns no backend: a Parse of a text that the
// pool has parsed before, and a Close, are answered here and cost no backend.
// Drivers wait for the answer to a Parse while they hold others' transactions open;
// without this, a pool whose backends are all taken could not answer any of them.
//
// State: pool.known, texts that have been parsed on a server of the pool. Any loop,
// under its mutex; taken for a named Parse of an idle client, and once per copy. Invariant: at most knownMax texts of knownBytes together; when they are full,
// all are forgotten.

import (
	"sync"

	"pgkinetic/engine/statements"
	"pgkinetic/protocol"
)

const (
	knownMax   = 4096
	knownBytes = 16 << 20
)

type knownStatements struct {
	mu    sync.Mutex
	of    map[*statements.Statement]struct{}
	bytes int
}

func (k *knownStatements) add(st *statements.Statement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.of[st]; ok {
		return
	}
	if k.of == nil || len(k.of) >= knownMax || k.bytes+st.Size() > knownBytes {
		k.of, k.bytes = map[*statements.Statement]struct{}{}, 0
	}
	k.of[st] = struct{}{}
	k.bytes += st.Size()
}

func (k *knownStatements) has(st *statements.Statement) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	_, ok := k.of[st]
	return ok
}

func (k *knownStatements) remove(st *statements.Statement) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, ok := k.of[st]; ok {
		delete(k.of, st)
		k.bytes -= st.Size()
	}
}

// answerIdle answers a message of a client that owns no backend, if that is possible.
func (c *client) answerIdle(typ byte, m []byte, size int) bool {
	if len(m) != size || !c.virtual() {
		return false
	}
	body := m[protocol.HeaderLen:]
	switch typ {
	case protocol.FrontendClose:
		kind, name, ok := protocol.CloseTarget(body)
		if !ok || kind != protocol.TargetStatement || len(name) == 0 {
			return false
		}
		c.catalog().Close(1, name)
		c.catalog().Step(1)
		c.owe(closeComplete)
	case protocol.FrontendParse:
		name, at, ok := protocol.ParseHead(body)
		if !ok || len(name) == 0 || !c.keeps(size) {
			return false
		}
		st := c.w.statements.Statement(c.environment(), body[at:])
		if st == nil || !c.up.pool.known.has(st) || c.prep.catalog.Lookup(name).Statement != nil ||
			!c.prep.catalog.Fits(st, statementBytesFactor*c.limits.MaxClientBufferBytes) {
			return false
		}
		c.prep.catalog.Parse(1, name, st)
		c.prep.catalog.Step(1)
		c.traffic.inc(trafficParses)
		c.owe(parseComplete)
	default:
		return false
	}
	c.w.stats.prepared[preparedLocal].inc()
	return true
}
