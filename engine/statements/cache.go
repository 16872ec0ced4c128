package statements

import "hash/maphash"

// Cache stands before a Store for one loop: a statement that was seen there
// lately is found without a lock.
//
// State. cacheSlots statements, each in the slot that its hash and its client's
// environment give; the sum of their sizes. Owner. One loop.
//
// Invariants. bytes is at most cacheBytes, and a statement above cacheLargest is
// never kept, so that what nobody uses any more is held in bounds.
type Cache struct {
	store *Store
	slots []slot
	bytes int
}

type slot struct {
	key       uint64
	statement *Statement
}

const (
	cacheSlots   = 1024
	cacheBytes   = 4 << 20
	cacheLargest = 64 << 10
)

// NewCache returns an empty Cache before a Store. Its slots (16 KiB) are made
// with the first statement.
func NewCache(store *Store) *Cache { return &Cache{store: store} }

// Statement is Store.Intern: nil for a malformed body, no copy and no allocation
// for a known one. The body's bytes are not kept.
func (c *Cache) Statement(env Environment, body []byte) *Statement {
	hash := maphash.Bytes(seed, body) & c.store.mask
	if st := c.find(hash^env.mixed(), env, body); st != nil {
		return st
	}
	return c.keep(hash^env.mixed(), c.store.intern(env, body, hash))
}

// Under is Store.Under.
func (c *Cache) Under(env Environment, st *Statement) *Statement {
	if st.under(env) {
		return st
	}
	if found := c.find(st.hash^env.mixed(), env, st.body); found != nil {
		return found
	}
	return c.keep(st.hash^env.mixed(), c.store.intern(env, st.body, st.hash))
}

func (c *Cache) find(key uint64, env Environment, body []byte) *Statement {
	if c.slots == nil {
		return nil
	}
	s := &c.slots[key%cacheSlots]
	if s.statement != nil && s.key == key && s.statement.is(env, body) {
		return s.statement
	}
	return nil
}

func (c *Cache) keep(key uint64, st *Statement) *Statement {
	if st == nil || st.own || st.Size() > cacheLargest {
		return st
	}
	if c.slots == nil {
		c.slots = make([]slot, cacheSlots)
	}
	s := &c.slots[key%cacheSlots]
	if s.statement != nil {
		c.bytes -= s.statement.Size()
		*s = slot{}
	}
	if c.bytes+st.Size() > cacheBytes {
		clear(c.slots)
		c.bytes = 0
	}
	*s = slot{key: key, statement: st}
	c.bytes += st.Size()
	return st
}
