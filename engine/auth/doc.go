// Package auth decides who a client is: which method applies to it (Rules), what
// is stored of its password (Secret, Users), whether its proof holds (Exchange),
// and how long the answer to a wrong one is held back (Throttle). Bytes in, bytes
// out: no socket, no clock, no goroutine.
//
// One rule runs through all of it: a user that does not exist, one without a
// usable secret and a wrong password look the same, in number and size of the
// messages, in the answer, and in the work that is done for them.
package auth
