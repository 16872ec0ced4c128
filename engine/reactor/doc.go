// Package reactor is the event loops of the pooler: edge-triggered sockets on
// epoll, a mailbox between loops, timers, output buffers, the acceptor and the
// helpers for work that would stall a loop.
//
// A Loop is one goroutine, not locked to a thread. Everything that a loop can
// reach belongs to it; what crosses loops is an atomic or a Message. Nothing on
// a loop blocks and no event does unbounded work:
//
//   - a turn handles at most 256 messages, 256 resumed sockets and 1024 timers,
//     then lets events through
//   - a handler that reads in a loop has a budget, and calls Loop.Later when it
//     runs out
//
// Sockets are registered once, edge-triggered. Pausing is not reading, resuming
// is reading again at once: call the handler's own read or Loop.Later. A hang-up
// is reported also for a socket that is not being read.
//
// Files: loop (rounds, turns, stop), poller (epoll), mailbox, timer and clock, socket
// (registration), secure and secure_handshake (TLS below a socket), syscalls, chunk
// and chain (buffers), outbox (the writes of a round) and ring (io_uring), dial, listen
// and listen_unix (listeners), acceptor, helpers.
package reactor
