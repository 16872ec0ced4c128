package engine

// target_session_attrs: a server is judged when it has logged in, by what it has
// reported or, if that does not tell, by one query; and again when it reports
// another role, or answers that it cannot write.

import (
	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// judge decides whether a server that has just logged in does for its pool.
func (s *server) judge() {
	attrs := s.basis.attrs()
	switch backend.JudgeRole(attrs, s.params) {
	case backend.Fits:
		s.judged()
	case backend.Unfit:
		s.unfitAtLogin()
	default:
		s.login.roleAsked = true
		s.send(protocol.AppendQuery(nil, backend.RoleQuery(attrs)))
	}
}

// judged: it does; connect_query is next.
func (s *server) judged() {
	s.basis.role.Succeeded(s.w.now())
	if q := s.basis.entry.ConnectQuery; q != "" {
		s.login.hello = true
		s.send(protocol.AppendQuery(nil, q))
		return
	}
	s.login.ready = true
}

func (s *server) unfitAtLogin() { s.openFailed(reasonServerRole, s.roleError()) }

func (s *server) roleError() error {
	return &backend.RoleError{Host: s.basis.host.name, Attrs: s.basis.attrs()}
}

// roleMessage takes the answer to the query.
func (s *server) roleMessage(typ byte, body []byte) {
	run := s.login
	switch typ {
	case protocol.BackendErrorResponse:
		s.openFailed(reasonServerRefused, &backend.RefusedError{Fields: protocol.DecodeError(body)})
	case protocol.BackendDataRow:
		run.role = backend.JudgeRoleAnswer(s.basis.attrs(), body)
	case protocol.BackendReadyForQuery:
		run.roleAsked = false
		if run.role == backend.Fits {
			s.judged()
			return
		}
		s.unfitAtLogin()
	}
}

// reportedRole: the server has reported a parameter by which it may be judged. A
// client's own setting tells nothing of the server.
func (s *server) reportedRole(name []byte) {
	switch string(name) {
	case "in_hot_standby":
	case "default_transaction_read_only":
		if s.state != serverIdle {
			return
		}
	default:
		return
	}
	if s.state < serverIdle || s.outdated() || backend.JudgeRole(s.basis.attrs(), s.params) != backend.Unfit {
		return
	}
	now := s.w.now()
	if s.peer != "" {
		s.basis.host.missedAt(s.peer, now, now)
	}
	s.basis.role.Failed(now, s.roleError())
	s.pool.hostFailed(s.w, s.basis, true)
}

// cannotWrite: the server has answered read_only_sql_transaction. If it reports
// that it can write, the client has asked for that. Else it may be a standby by
// now: it ends when it is released, and a new one, whose login is judged, shows
// whether the pool has to go elsewhere.
func (s *server) cannotWrite() {
	attrs := s.basis.attrs()
	if attrs != configs.SessionReadWrite && attrs != configs.SessionPrimary || backend.JudgeRole(attrs, s.params) == backend.Fits {
		return
	}
	s.wrongRole = true
	last, now := s.pool.rechecked.Load(), s.w.now()
	if now-last >= recheckEvery && s.pool.rechecked.CompareAndSwap(last, now) {
		s.w.openAhead(s.pool, now)
	}
}

// recheckEvery bounds the servers that are opened for that.
const recheckEvery = 500 * ms
