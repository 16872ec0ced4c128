// Package routing tells which route a request belongs to.
//
// A Table turns what a request shows (Key) into an Identity, by rules and by the parts of the key that count. A Directory
// keeps the routes: one for each pair of pool and Identity, bounded in number, forgotten when nobody needs them. Neither
// does IO, reads a clock or starts a goroutine, and neither knows what a pool or a route is.
//
// A client keeps the route that it was given and asks again only when its application_name, its class or the
// configuration changes, or when the route turns out to be dead. Nothing here is called per query.
package routing
