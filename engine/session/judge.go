package session

import (
	"encoding/binary"
	"encoding/hex"
	"strings"

	"pgkinetic/protocol"
)

// Judge judges the settings of one client's startup packet. Owner: the loop of
// the client. Its life:
//
//	NewJudge ─Decide─→ ready: Profile
//	            │ └──→ error: FATAL, the client's login ends
//	            └────→ not ready: a backend is asked (AppendProbes, Receive until
//	                   done), then Decide again
//
// Invariants: each setting has one verdict, unknown at first; those that are
// neither judged here nor in the pool's Verdicts are asked of PostgreSQL, one
// Query each, whose effect ends with its own transaction. answers counts the
// ReadyForQuery received for the asked ones.
type Judge struct {
	settings []setting
	asked    []int // indexes of settings, in the order of their Queries
	answers  int
	row      []byte // the result of the Query being answered
	failure  *SettingError
	applied  *Profile
}

type setting struct {
	protocol.Param
	verdict verdict
}

// NewJudge collects what params, the startup packet's parameters, ask for
// beyond user and database. It fails with a *SettingError on malformed
// "options". The engine answers "replication" and "_pq_." names itself.
func NewJudge(params []protocol.Param) (*Judge, error) {
	asked, err := requested(params)
	if err != nil {
		return nil, err
	}
	j := &Judge{settings: make([]setting, len(asked))}
	for i, p := range asked {
		j.settings[i].Param = p
	}
	return j, nil
}

// Decide judges with what is known: the pool's defaults (empty: no backend has
// logged in yet) and its verdicts. ready means Profile and Unapplied are final;
// not ready, that PostgreSQL must be asked about Probes settings. A refusal is
// a *SettingError. Verdicts learnt from probes are recorded in v. now is in
// monotonic nanoseconds.
func (j *Judge) Decide(server Defaults, v *Verdicts, now int64) (ready bool, err error) {
	j.learn(v, now)
	for i := range j.settings {
		s := &j.settings[i]
		if s.verdict.kind == unknown {
			if err := s.judgeHere(server, v, now); err != nil {
				return false, err
			}
		}
		switch s.verdict.kind {
		case unknown:
			j.asked = append(j.asked, i)
		case refused:
			return false, s.verdict.refusal
		case accepted, unapplied:
		}
	}
	if len(j.asked) > 0 {
		return false, nil
	}
	var settings []protocol.Param
	for i := range j.settings {
		if s := &j.settings[i]; s.verdict.kind == accepted {
			settings = append(settings, protocol.Param{Name: s.Name, Value: s.verdict.value})
		}
	}
	j.applied = Intern(settings)
	return true, nil
}

// learn records what the probes have shown.
func (j *Judge) learn(v *Verdicts, now int64) {
	for _, i := range j.asked[:j.answers] {
		s := &j.settings[i]
		s.verdict.until = now + refusalHold
		v.put(s.Param, s.verdict)
	}
	j.asked, j.answers = j.asked[:0], 0
}

// judgeHere judges what needs no backend.
func (s *setting) judgeHere(server Defaults, v *Verdicts, now int64) error {
	switch s.Name {
	case "application_name":
		if major := server.ServerMajor(); major != 0 {
			s.verdict = verdict{kind: accepted, value: ApplicationName(s.Value, major)}
		}
		return nil
	case "client_encoding":
		encoding, _ := server.Get("server_encoding")
		canonical, sure, err := judgeEncoding(s.Value, encoding)
		if err != nil {
			return err
		}
		if sure {
			s.verdict = verdict{kind: accepted, value: canonical}
			return nil
		}
	case "transaction_isolation", "transaction_read_only", "transaction_deferrable":
		// They speak of one transaction; at startup there is none.
		s.verdict = verdict{kind: unapplied}
		return nil
	}
	s.verdict = v.get(s.Param, now)
	return nil
}

// Profile returns the judged settings, after Decide said ready.
func (j *Judge) Profile() *Profile { return j.applied }

// Unapplied calls f with the name of each setting that was accepted without
// effect, because PostgreSQL takes it only at connection start, or knows no
// effect of it there either: worth one log line.
func (j *Judge) Unapplied(f func(name string)) {
	for i := range j.settings {
		if j.settings[i].verdict.kind == unapplied {
			f(j.settings[i].Name)
		}
	}
}

// Probes returns how many Query messages AppendProbes appends.
func (j *Judge) Probes() int { return len(j.asked) }

// AppendProbes appends one Query per setting to ask about. The backend must be
// idle, outside a transaction, and carry Empty (put a Batch in front, if need
// be): another client's role must not decide what this one may set. Each Query ends with its own ReadyForQuery and
// leaves nothing behind; an ErrorResponse among the answers is an answer.
func (j *Judge) AppendProbes(dst []byte) []byte {
	j.answers, j.row, j.failure = 0, nil, nil
	for _, i := range j.asked {
		dst = protocol.AppendQuery(dst, ProbeSQL(j.settings[i].Param))
	}
	return dst
}

// Receive takes a message of the backend that is being asked. done means all
// probes were answered: call Decide again. An error is a *SettingError that
// says nothing about the setting (a time-out, a shutdown): the login fails with
// it, and nothing is remembered.
func (j *Judge) Receive(typ byte, body []byte) (done bool, err error) {
	switch typ {
	case protocol.BackendDataRow:
		j.row = append(j.row[:0], lastColumn(body)...)
	case protocol.BackendErrorResponse:
		j.failure = &SettingError{protocol.DecodeError(body)}
	case protocol.BackendReadyForQuery:
		if j.answers == len(j.asked) {
			return true, nil
		}
		s := &j.settings[j.asked[j.answers]]
		j.answers++
		s.verdict, err = probeVerdict(s.Param, j.row, j.failure)
		j.row, j.failure = j.row[:0], nil
		return err == nil && j.answers == len(j.asked), err
	}
	return false, nil
}

// ProbeSQL is the query that asks PostgreSQL for the canonical value of one
// setting: a set_config for its own implicit transaction, which takes it back.
// DateStyle's canonical value depends on the present one, so that is reset
// first. A value beyond ASCII comes back in hexadecimal, in the database's
// encoding, since client_encoding may be anybody's.
func ProbeSQL(s protocol.Param) string {
	dst := []byte("SELECT ")
	if s.Name == "datestyle" {
		dst = append(dst, "pg_catalog.set_config(E'datestyle',NULL,true),"...)
	}
	if isASCII(s.Value) {
		return string(appendSetConfig(dst, s.Name, s.Value, true))
	}
	dst = append(dst, "pg_catalog.encode(pg_catalog.convert_to("...)
	dst = appendSetConfig(dst, s.Name, s.Value, true)
	return string(append(dst, ",pg_catalog.getdatabaseencoding()),'hex')"...))
}

// probeVerdict reads the answer to ProbeSQL. An error is an answer that tells
// nothing about the setting.
func probeVerdict(s protocol.Param, row []byte, failure *SettingError) (verdict, error) {
	if failure != nil {
		code := failure.Fields.Code
		switch {
		case code == protocol.CodeCantChangeRuntimeParam:
			return verdict{kind: unapplied}, nil
		case judges(code):
			return verdict{kind: refused, refusal: failure}, nil
		}
		return verdict{}, failure
	}
	if s.Name == "session_authorization" {
		// Checked at startup, and then overridden by the login's own user.
		return verdict{kind: unapplied}, nil
	}
	if isASCII(s.Value) {
		return verdict{kind: accepted, value: string(row)}, nil
	}
	value, err := hex.DecodeString(string(row))
	if err != nil {
		return verdict{}, &SettingError{protocol.ErrorFields{
			Code:    protocol.CodeProtocolViolation,
			Message: "unexpected answer when asked about parameter \"" + s.Name + "\"",
		}}
	}
	return verdict{kind: accepted, value: string(value)}, nil
}

// judges says whether an error's class speaks of the setting rather than of
// the server's state.
func judges(code string) bool {
	if len(code) != 5 {
		return false
	}
	for _, class := range [...]string{"08", "40", "53", "55", "57", "58", "XX"} {
		if strings.HasPrefix(code, class) {
			return false
		}
	}
	return true
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// lastColumn returns the last column of a DataRow, nil when it is NULL or the
// message is malformed.
func lastColumn(body []byte) []byte {
	if len(body) < 2 {
		return nil
	}
	var value []byte
	rest := body[2:]
	for range binary.BigEndian.Uint16(body) {
		if len(rest) < 4 {
			return nil
		}
		n := int32(binary.BigEndian.Uint32(rest))
		rest = rest[4:]
		if n < 0 {
			value = nil
			continue
		}
		if int64(n) > int64(len(rest)) {
			return nil
		}
		value, rest = rest[:n], rest[n:]
	}
	return value
}
