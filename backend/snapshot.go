package backend

import (
	"pgkinetic/protocol"
)

// Snapshot is an immutable copy of reported parameters: what a pool answers
// logins with while no backend is at hand. One pointer is shared by all loops
// (publish it by atomic.Pointer). Its values are base values: those of a
// session without settings of a client. A nil Snapshot is empty.
type Snapshot struct {
	items   []protocol.Param
	encoded []byte // the ParameterStatus messages, ready to be copied
	major   int
}

// Snapshot returns the base values of p; prev itself when it says the same, so
// that backends of one pool share one Snapshot. Take it at the end of a login:
// the facts of the server are then as fresh as can be.
func (p *Params) Snapshot(prev *Snapshot) *Snapshot {
	if prev.equal(p) {
		return prev
	}
	items := make([]protocol.Param, len(p.entries))
	for i := range p.entries {
		items[i] = protocol.Param{Name: p.entries[i].name, Value: string(p.entries[i].base)}
	}
	return newSnapshot(items)
}

func newSnapshot(items []protocol.Param) *Snapshot {
	s := &Snapshot{items: items}
	for _, it := range items {
		s.encoded = protocol.AppendParameterStatus(s.encoded, it.Name, it.Value)
	}
	version, _ := s.Get("server_version")
	for i := 0; i < len(version) && i < 4 && '0' <= version[i] && version[i] <= '9'; i++ {
		s.major = s.major*10 + int(version[i]-'0')
	}
	return s
}

func (s *Snapshot) equal(p *Params) bool {
	if s.Len() != len(p.entries) {
		return false
	}
	for i := range p.entries {
		if s.items[i].Name != p.entries[i].name || s.items[i].Value != string(p.entries[i].base) {
			return false
		}
	}
	return true
}

// With returns a Snapshot in which name has value, s itself when it has it
// already. For ParameterStatus of an idle backend: it comes from a reload or a
// promotion, never from a client.
func (s *Snapshot) With(name, value []byte) *Snapshot {
	if s == nil {
		s = &Snapshot{}
	}
	items := make([]protocol.Param, 0, len(s.items)+1)
	found := false
	for _, it := range s.items {
		if foldEqual(it.Name, name) {
			if it.Value == string(value) {
				return s
			}
			it.Value, found = string(value), true
		}
		items = append(items, it)
	}
	if !found {
		if len(items) == maxParams || len(s.encoded)+len(name)+len(value) > maxParamBytes {
			return s
		}
		items = append(items, protocol.Param{Name: internName(name), Value: string(value)})
	}
	return newSnapshot(items)
}

// Len returns how many parameters there are.
func (s *Snapshot) Len() int {
	if s == nil {
		return 0
	}
	return len(s.items)
}

// At returns the i-th parameter.
func (s *Snapshot) At(i int) protocol.Param { return s.items[i] }

// Get returns the value of a parameter, looked up without regard to case.
func (s *Snapshot) Get(name string) (value string, ok bool) {
	for i := range s.Len() {
		if it := &s.items[i]; len(it.Name) == len(name) && fold(it.Name, name) {
			return it.Value, true
		}
	}
	return "", false
}

// ServerMajor returns the first number of server_version (15 for 15.4), 0 when
// it is not known.
func (s *Snapshot) ServerMajor() int {
	if s == nil {
		return 0
	}
	return s.major
}

// AppendAll appends one ParameterStatus per parameter.
func (s *Snapshot) AppendAll(dst []byte) []byte {
	if s == nil {
		return dst
	}
	return append(dst, s.encoded...)
}
