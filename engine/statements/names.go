package statements

import (
	"bytes"
	"strconv"
)

// Prefix is how the names of all copies of this process begin.
func Prefix() string { return prefix }

// Outdated drops the copies that the message of this number, and those behind it,
// were sent to use: its use has failed in a way that may be the copy's fault
// (0A000 after a change of its tables, 26000 after something on the server took it
// away). It returns how many; the next use of each is preceded by a new Parse.
func (h *Held) Outdated(number uint64) (n int) {
	for c := h.order.next; c != &h.order && c.used >= number; {
		next := c.next
		if c.parseAt == 0 {
			h.Stale(c)
			n++
		}
		c = next
	}
	return n
}

// NamedIn finds the name of a copy in a text of the server's: the name, and the
// statement, or nil.
func (h *Held) NamedIn(text []byte) (name string, s *Statement) {
	i := bytes.Index(text, []byte(prefix))
	if i < 0 {
		return "", nil
	}
	end := i + len(prefix)
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	id, err := strconv.ParseUint(string(text[i+len(prefix):end]), 10, 64)
	if err != nil {
		return "", nil
	}
	if c := h.named(id); c != nil {
		return string(text[i:end]), c.statement
	}
	return "", nil
}

// named finds the copy of an id, one that is being closed as well: what was sent
// before its Close may not be answered yet.
func (h *Held) named(id uint64) *Copy {
	for c := h.order.next; c != &h.order; c = c.next {
		if c.id == id {
			return c
		}
	}
	for _, c := range h.closing {
		if c.id == id {
			return c
		}
	}
	for i := h.ops.head; i != h.ops.tail; i++ {
		if op := h.ops.at(i); op.kind == heldClose && op.copy.id == id {
			return op.copy
		}
	}
	return nil
}

// NameOf returns a name that the client has for a statement; of several the one
// given last.
func (c *Catalog) NameOf(s *Statement) (name []byte, ok bool) {
	if c == nil {
		return nil, false
	}
	for i := c.ops.tail; i != c.ops.head; i-- {
		if op := c.ops.at(i - 1); op.kind == opParse && op.name != &c.unnamed && op.statement.sameText(s) {
			return op.name.text(), true
		}
	}
	for n := c.committed; n != nil; n = n.next {
		if n.committed.sameText(s) {
			return n.text(), true
		}
	}
	return nil, false
}

// sameText tells whether two statements differ in their environment at most.
func (s *Statement) sameText(t *Statement) bool {
	return s == t || s != nil && t != nil && s.hash == t.hash && bytes.Equal(s.body, t.body)
}

// Unused tells whether a name's statement has not been used since its Parse.
func (c *Catalog) Unused(text []byte) bool {
	n := c.find(text)
	return n != nil && !n.used
}

// FirstUse tells whether a name's statement is about to be used for the first time
// since its Parse, and notes that it is.
func (c *Catalog) FirstUse(text []byte) bool {
	n := c.find(text)
	if n == nil || n.used {
		return false
	}
	n.used = true
	return true
}
