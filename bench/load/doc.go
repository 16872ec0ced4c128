// Package load makes the loads that pgbench cannot make: requests at times that the answers do not move, refusals counted by
// their SQLSTATE, thousands of clients that rest, thousands that log in at once, clients that come and go, large results that
// are read slowly, COPY in both directions. It knows an address, a login and numbers, and gives figures; what it measures, and
// whether a figure is good, is the caller's to say.
//
// # What there is
//
//	Dial(server, rank, classes…)    sessions of one or more classes, driven by one thread
//	  Group.Offer                   open loop: arrivals by a schedule, latencies from the time at which each was due
//	  Group.Repeat                  closed loop: each session sends again as soon as it has its answer
//	Capacity, Sweep, Peak.Overload  goodput at a multiple of the capacity, and the peak that it is compared with
//	Beside                          anything while a load runs around it
//	NewIdle, Idle.Grow              sessions that ran one query and stay; between two calls the caller reads memory
//	Storm.Run                       clients that all connect at once
//	StormBeside                     the same, with the latencies of a Group before and during it
//	Churn.Run                       clients that connect, ask, leave and come again: logins per second
//	NewSilent                       sockets that begin a TLS handshake and say no more
//	Stream.Run                      large results and COPY, as fast as they come or slowly: bytes per second
//
// All of it ends: every run has a number of requests or a time, a server that is silent for Silence ends it with an error,
// and a context that is done ends it early, with the figures so far.
//
// # How it is built
//
// A run has one thread with an epoll set of its own (loop), which does the whole of the protocol without blocking: connect,
// login, requests, answers. Nine tenths of its CPU time are the kernel's, for its own end of the sockets, and no wait for a
// scheduler stands between the time of a request and its being sent (Tally.Late tells what the machine makes of that).
// Sockets do not use Go's poller, whose share of the CPU would be a good part of what is measured. Every run tells what CPU
// time its thread has used.
//
// # Logins
//
// A login without a question (trust) needs nothing. Whatever else a server asks for goes to the Authenticator that
// Server.Authenticate makes; package scram has one.
//
// # TLS
//
// With Server.TLS, everything is the same over TLS 1.3, as libpq does it with sslmode=require. Handshakes are computed on the
// thread of the run too (secure), so that they have its rank, and count as the load's CPU time and not as somebody else's.
// Bytes pass from and to a socket in conn.read and in write alone, and in secure between them and crypto/tls.
package load
