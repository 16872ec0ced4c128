package statements

import "bytes"

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

// NameIn finds the name of a copy in a text of the server's; empty: there is none.
func NameIn(text []byte) (name string) {
	i := bytes.Index(text, []byte(prefix))
	if i < 0 {
		return ""
	}
	end := i + len(prefix)
	for end < len(text) && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	return string(text[i:end])
}

// use is a message that was sent under the server's name of a statement, and the
// client's name for it.
type use struct {
	number uint64
	name   *name
}

// Use tells that the message of a number, which names what was found, was sent under
// another name; done is the number up to which all are answered.
func (c *Catalog) Use(number, done uint64, f Found) {
	for c.uses.len() > 0 && c.uses.front().number <= done {
		c.uses.pop()
	}
	c.uses.push(use{number, f.name})
}

// NameOf returns the name by which the client's message of a number named its
// statement; ok is false if that was not told by Use. Ask as soon as the message is
// answered.
func (c *Catalog) NameOf(number uint64) (name []byte, ok bool) {
	if c == nil {
		return nil, false
	}
	for i := c.uses.head; i != c.uses.tail; i++ {
		if u := c.uses.at(i); u.number == number {
			return u.name.text(), true
		}
	}
	return nil, false
}

// Unused tells whether what was found has not been used since its Parse.
func (f Found) Unused() bool { return f.name != nil && !f.name.used }

// Use tells that what was found by a name is about to be used.
func (f Found) Use() { f.name.used = true }
