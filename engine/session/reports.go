package session

import "pgkinetic/protocol"

// Reported is one backend's record of what the server reported; backend.Params
// is one. Each parameter has its present value and its base, the value without
// settings of a client; Gen changes whenever a value does. Names are compared
// without regard to case. A parameter keeps its index for the life of the
// backend; there are at most 64. Owner: the loop of the backend.
type Reported interface {
	Len() int
	At(i int) (name string, value, base []byte)
	Get(name string) (value []byte, ok bool)
	SettableAt(i int) bool // not a fact of the server, such as server_version
	Rebase(i int)          // makes the value the base
	Gen() uint32
}

// Defaults are the parameters of a pool as a client without settings sees
// them; backend.Snapshot is one, also when it is a nil pointer: no backend has
// logged in yet. Immutable.
type Defaults interface {
	Len() int
	At(i int) protocol.Param
	Get(name string) (value string, ok bool)
	ServerMajor() int
	AppendAll(dst []byte) []byte // one ParameterStatus each
}
