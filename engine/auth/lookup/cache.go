package lookup

import "container/list"

// cache remembers results by user, at most max of them: the one that was used
// longest ago goes first. How old one may be is for the reader to judge, by the
// settings of that moment. Owner: whoever holds Lookup.mu.
type cache struct {
	max   int
	byKey map[string]*list.Element // of Result
	order *list.List               // the last used first
}

func newCache(max int) *cache {
	return &cache{max: max, byKey: map[string]*list.Element{}, order: list.New()}
}

func (c *cache) get(user string) (Result, bool) {
	e, found := c.byKey[user]
	if !found {
		return Result{}, false
	}
	c.order.MoveToFront(e)
	return e.Value.(Result), true
}

func (c *cache) put(r Result) {
	if e, found := c.byKey[r.User]; found {
		e.Value = r
		c.order.MoveToFront(e)
		return
	}
	c.byKey[r.User] = c.order.PushFront(r)
	if c.order.Len() > c.max {
		c.drop(c.order.Back().Value.(Result).User)
	}
}

func (c *cache) drop(user string) {
	if e, found := c.byKey[user]; found {
		c.order.Remove(e)
		delete(c.byKey, user)
	}
}
