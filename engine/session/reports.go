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

// maxAdopted bounds the bytes of a value that is taken from a report.
// PostgreSQL's own bounds are far below: 63 for application_name, 255 for
// TimeZone.
const maxAdopted = 1 << 10

// valueOf finds the present value and the base of a parameter, whose name is in
// lower case.
func valueOf(reported Reported, name string) (value, base []byte, known bool) {
	for i := range reported.Len() {
		if n, value, base := reported.At(i); len(n) == len(name) && equalFold(name, n) {
			return value, base, true
		}
	}
	return nil, nil, false
}

// plainValue says whether a reported value can be sent to another backend as it
// is: it is short, and ASCII, hence the same whatever encoding the report has
// been converted to.
func plainValue(value []byte) bool {
	for _, c := range value {
		if c < ' ' || c >= 0x7f {
			return false
		}
	}
	return len(value) <= maxAdopted
}
