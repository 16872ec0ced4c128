// Package admission decides which request runs on which PostgreSQL backend, which one waits, and which one is
// refused at once. It holds the permits of routes, the places of pools, the queues between them and the limits of
// hosts; it knows neither sockets nor the protocol nor the clock.
//
// Two words decide. The route word holds a route's requests in flight, its waiters and its limit; the pool word holds
// a pool's places (backends that are open, connecting or closing), those of them in use, its holders (requests that
// have a permit and no backend yet) and its eligible routes. A request runs when it has a permit of its route and a
// place of its pool; both come and go by a compare-and-swap of these words. As long as nobody waits nothing else is
// touched: no lock, no message, no allocation. Only what changes the queues enters the pool's short critical section.
//
// # Loops
//
// Every method that takes a loop runs on that event loop's goroutine, and the engine calls them for a waiter or an
// idle place only on the loop that owns it. now is monotonic nanoseconds. Driver calls are made on the calling loop,
// outside all locks, before the method that causes them returns (or before the outermost method returns, when the
// engine calls admission from inside a Driver call).
package admission
