// Package protocol holds the PostgreSQL frontend/backend protocol, version 3,
// as bytes: framing, start-up packets, the few messages that are encoded or
// decoded by name, and the tracker of the answers that a backend still owes.
//
// Nothing in here reads a socket, a clock or a file, keeps a slice that it was
// given, or starts a goroutine. A value belongs to whoever made it, in practice
// to the loop that owns the connection; nothing is safe for concurrent use.
//
// Names are those of the PostgreSQL documentation, chapter "Frontend/Backend
// Protocol" (sections "Message Flow" and "Message Formats").
package protocol
