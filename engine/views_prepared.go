package engine

// What is to be seen of prepared statements: per client and per backend. Any
// goroutine may look; it visits each loop.

import (
	"cmp"
	"slices"
	"sync"
)

// PreparedRow is a client's statements, or a backend's copies.
type PreparedRow struct {
	Client          uint64 // its number; 0 for a backend
	Server          uint64 // its number; 0 for a client
	ServerPID       uint32 // of a backend
	Pool            string // entry/database/user
	ApplicationName string // of a client
	Statements      int    // named ones of a client, copies of a backend
	Bytes           int    // what they count for
}

// Prepared shows who has prepared statements, clients first. Any goroutine.
func (e *Engine) Prepared() []PreparedRow {
	var mu sync.Mutex
	var rows []PreparedRow
	add := func(r PreparedRow) {
		if r.Statements == 0 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		rows = append(rows, r)
	}
	e.walk(func(w *worker) {
		for s := w.servers.first; s != nil; s = s.next {
			if s.held != nil {
				add(PreparedRow{Server: s.number, ServerPID: s.pid, Pool: s.pool.title(), Statements: s.held.Len(), Bytes: s.held.Bytes()})
			}
		}
	}, func(c *client) {
		if c.prep != nil {
			add(PreparedRow{
				Client: c.id, Pool: c.up.pool.title(), ApplicationName: c.application(),
				Statements: c.prep.catalog.Len(), Bytes: c.prep.catalog.Bytes(),
			})
		}
	})
	slices.SortFunc(rows, func(a, b PreparedRow) int {
		return cmp.Or(cmp.Compare(b.Client, a.Client), cmp.Compare(a.Server, b.Server))
	})
	return rows
}
