package engine

// Cleaning: what a client left on a backend is undone before anybody else is
// served (reset_query). With smart, only what is there: a clean backend is sent
// nothing.
//
// State: server.left, a bit for each kind of what is there. It gains bits when a
// client leaves a backend with pins or sends what cannot be followed, and is empty
// again when the clean-up has been answered.

import "pgkinetic/protocol"

// leftovers are kinds of state on a backend: those for which a client pins it, and
// others.
type leftovers uint16

const (
	leftTempTable    = leftovers(pinTempTable)
	leftAdvisoryLock = leftovers(pinAdvisoryLock)
	leftHoldCursor   = leftovers(pinHoldCursor)
	leftSQLPrepare   = leftovers(pinSQLPrepare)
	leftStatements   = leftovers(pinLargeParse)
	leftUnknown      = leftovers(pinUnknown)
	leftSession      = leftovers(pinSticky) // a client of session mode: anything
	leftListen       = leftSession << 1     // LISTEN
	leftAlways       = leftSession << 2     // reset_query asks for it after every client
	leftLibrary      = leftSession << 3     // LOAD: nothing undoes it, the backend is closed

	// leftAll are those that only DISCARD ALL undoes.
	leftAll = leftUnknown | leftSession
)

// appendClean appends the one Query that undoes what is left; all tells that it is
// DISCARD ALL.
func (p *pool) appendClean(dst []byte, left leftovers) (out []byte, all bool) {
	switch {
	case p.resetAlways:
		return append(dst, p.clean...), p.cleanAll
	case left&leftAll != 0:
		return protocol.AppendQuery(dst, "DISCARD ALL"), true
	}
	sql := make([]byte, 0, 128)
	for _, k := range [...]struct {
		left leftovers
		sql  string
	}{
		{leftHoldCursor, "CLOSE ALL;"},
		{leftListen, "UNLISTEN *;"},
		{leftAdvisoryLock, "SELECT pg_catalog.pg_advisory_unlock_all();"},
		{leftTempTable, "DISCARD TEMP;"},
		{leftSQLPrepare | leftStatements, "DEALLOCATE ALL;"},
	} {
		if left&k.left != 0 {
			sql = append(sql, k.sql...)
		}
	}
	return protocol.AppendQuery(dst, string(sql)), false
}
