package engine

// What is to be seen of prepared statements: per client and per backend.

import (
	"iter"

	"pgkinetic/admin/view"
)

// Prepared shows who has prepared statements, clients first. Any goroutine but a
// loop's.
func (e *Engine) Prepared() iter.Seq[view.Prepared] {
	return func(yield func(view.Prepared) bool) {
		for row := range askClients(e, (*client).preparedRow) {
			if !yield(row) {
				return
			}
		}
		for row := range askServers(e, (*server).preparedRow) {
			if !yield(row) {
				return
			}
		}
	}
}

func (c *client) preparedRow() (row view.Prepared, ok bool) {
	n := c.catalog().Len()
	if n == 0 {
		return row, false
	}
	return view.Prepared{
		Client: c.id, Pool: c.up.pool.title(), ApplicationName: c.application(), Statements: n, Bytes: c.prep.catalog.Bytes(),
	}, true
}

func (s *server) preparedRow() (row view.Prepared, ok bool) {
	if s.held == nil || s.held.Len() == 0 {
		return row, false
	}
	return view.Prepared{
		Server: s.number, ServerPID: s.pid, Pool: s.pool.title(), Statements: s.held.Len(), Bytes: s.held.Bytes(),
	}, true
}
