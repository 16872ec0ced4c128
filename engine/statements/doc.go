// Package statements makes prepared statements virtual: a client's names are its
// own, a server's names are ours, and what ties them together is the full text.
//
//   - Statement: a text with its parameter types; Body, Text, Lexed, Flags, Ops,
//     MayCopy, Own, Kept, Size. NewStore, Store.Intern and Store.Under make equal
//     ones one pointer; a Cache for each loop (NewCache, Cache.Statement,
//     Cache.Under) does so without a lock. Unkept stands for one whose text is not
//     kept.
//   - Environment (NewEnvironment, EnvironmentSettings): those settings of a
//     client that decide what a text means when it is parsed.
//   - Catalog: one client's names. Lookup; Parse, Close, Query, Clear when these
//     are sent; Step, Settle, Lost when they are answered; Fits, Bytes, Len,
//     InFlight; Found.Unused and Found.Use; Use and NameOf, for the names in the
//     server's errors (NameIn). Nothing but Parse, Fits and Use needs one to exist:
//     nil is a client that has never prepared anything.
//   - Held: one server connection's copies. NewHeld, SetLimits; Find, Use; Parse,
//     NextClose and CloseSent, Deallocate, Clear, ParseUnnamed, CloseUnnamed, Query
//     when these are sent; Step, Settle when they are answered; Stale, Outdated,
//     Drop, Leaked, Failed, Parsed, Unnamed, Len, Bytes. AppendName is what the
//     server calls a copy.
//
// Catalog and Held are told what is sent, under the numbers of the server's
// protocol.Tracker (Sent), and settle it in order behind each Receive. A client's
// message that names a statement goes this way:
//
//	found := catalog.Lookup(name)           // found.Since in an earlier group: wait
//	st := cache.Under(env, found.Statement) // as the client's settings read it
//	c, since := held.Find(st)               // since in an earlier group: wait
//	if c == nil { c = held.Parse(n, st) }   // a Parse(c.AppendName, st.Body) before it
//	held.Use(c, n)                          // the message, with c's name
//	for { id, ok := held.NextClose(); … }   // a Close(AppendName(id)); CloseSent
//
// Numbers start at 1; a since of 0 is certain.
//
// The package is pure: no socket, no clock, no goroutine. Store is safe for all
// goroutines, everything else belongs to a loop.
package statements
