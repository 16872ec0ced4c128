// Package statements makes prepared statements virtual: a client's names are its
// own, a server's names are ours, and what ties them together is the full text.
//
//   - Statement is a text with its parameter types; a Store makes equal ones one
//     pointer, a Cache per loop makes that cheap.
//   - Catalog is one client's names, with what is in flight.
//   - Held is one server connection's copies, with what is in flight.
//
// Both are told what is sent, under the numbers of the tracker, and settle it in
// order by Done, Failed and Removed. A client's message that names a statement
// goes this way:
//
//	found := catalog.Lookup(name)           // client's name → statement
//	                                        // found.Since in an earlier group: wait
//	st := cache.Under(env, found.Statement) // as the client's settings read it
//	c, since := held.Find(st)               // since in an earlier group: wait
//	if c == nil { c = held.Parse(n, st) }   // send Parse(c.AppendName, st.Body) before it
//	held.Use(c, n)                          // send it with c's name
//	for { id, ok := held.NextClose(); … }   // send Close(AppendName(id)), CloseSent
//
// The package is pure: no socket, no clock, no goroutine. Store is safe for all
// goroutines, everything else belongs to a loop.
package statements
