package backend

import (
	"fmt"

	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// Fit says whether a server satisfies target_session_attrs.
type Fit uint8

const (
	// FitUnknown: the server has not reported what decides it; see RoleQuery.
	FitUnknown Fit = iota
	// Fits: it does.
	Fits
	// Unfit: it does not.
	Unfit
)

// JudgeRole judges a server by what it reports of itself since version 14, as libpq does: it is a standby if
// in_hot_standby is on, and its sessions are read-only if that or default_transaction_read_only is. Of a server that
// prefer-standby asks about, a standby fits; whether another is taken is the caller's decision.
func JudgeRole(attrs configs.SessionAttrs, p *Params) Fit {
	standby, knows := p.Get("in_hot_standby")
	readOnly, knowsToo := p.Get("default_transaction_read_only")
	switch attrs {
	case configs.SessionReadWrite, configs.SessionReadOnly:
		if !knows || !knowsToo {
			return FitUnknown
		}
		return fit((string(standby) == "on" || string(readOnly) == "on") == (attrs == configs.SessionReadOnly))
	case configs.SessionPrimary, configs.SessionStandby, configs.SessionPreferStandby:
		if !knows {
			return FitUnknown
		}
		return fit((string(standby) == "on") == (attrs != configs.SessionPrimary))
	}
	return Fits
}

// RoleQuery is what a server is asked of which JudgeRole knows nothing; its answer is one row of one value.
func RoleQuery(attrs configs.SessionAttrs) string {
	switch attrs {
	case configs.SessionReadWrite, configs.SessionReadOnly:
		return "SHOW transaction_read_only"
	}
	return "SELECT pg_catalog.pg_is_in_recovery()"
}

// JudgeRoleAnswer judges a server by the row with which it has answered RoleQuery, the body of a DataRow.
func JudgeRoleAnswer(attrs configs.SessionAttrs, row []byte) Fit {
	const head = 2 + 4 // the number of columns, the length of the first
	value := string(row[min(head, len(row)):])
	yes := value == "on" || value == "t"
	return fit(yes == (attrs != configs.SessionReadWrite && attrs != configs.SessionPrimary))
}

func fit(ok bool) Fit {
	if ok {
		return Fits
	}
	return Unfit
}

// RoleError: a host answers, but does not satisfy target_session_attrs.
type RoleError struct {
	Host  string
	Attrs configs.SessionAttrs
}

func (e *RoleError) Error() string {
	is := map[configs.SessionAttrs]string{
		configs.SessionReadWrite: "it is read-only", configs.SessionReadOnly: "it is not read-only",
		configs.SessionPrimary: "it is a standby", configs.SessionStandby: "it is no standby",
		configs.SessionPreferStandby: "it is no standby",
	}[e.Attrs]
	return fmt.Sprintf("PostgreSQL at %s does not do for target_session_attrs %s: %s", e.Host, e.Attrs, is)
}

// Class is LoginFault: the host is in order, only not for this entry.
func (e *RoleError) Class() Class { return LoginFault }

// Answer is 08006 (connection_failure), as when there is no host.
func (e *RoleError) Answer() protocol.ErrorFields {
	return protocol.ErrorFields{Code: protocol.CodeConnectionFailure, Message: e.Error()}
}
