package protocol

import "encoding/binary"

// The encoders append one whole message to dst and return the longer slice.
// They allocate only when dst has no room. Strings must not hold zero bytes: the
// protocol ends strings with one.

// begin appends a header whose length is filled in by finish.
func begin(dst []byte, typ byte) (out []byte, at int) {
	return append(dst, typ, 0, 0, 0, 0), len(dst) + 1
}

// finish writes the length of the message whose length field is at at.
func finish(dst []byte, at int) []byte {
	binary.BigEndian.PutUint32(dst[at:], uint32(len(dst)-at))
	return dst
}

func appendString(dst []byte, s string) []byte {
	return append(append(dst, s...), 0)
}

// AppendReadyForQuery appends ReadyForQuery with a transaction status.
func AppendReadyForQuery(dst []byte, status byte) []byte {
	return append(dst, BackendReadyForQuery, 0, 0, 0, 5, status)
}

// AppendParameterStatus appends ParameterStatus.
func AppendParameterStatus(dst []byte, name, value string) []byte {
	dst, at := begin(dst, BackendParameterStatus)
	return finish(appendString(appendString(dst, name), value), at)
}

// AppendAuthenticationOk appends AuthenticationOk.
func AppendAuthenticationOk(dst []byte) []byte {
	return append(dst, BackendAuthentication, 0, 0, 0, 8, 0, 0, 0, 0)
}

// AppendKeyData appends BackendKeyData. The key has 4 bytes in protocol 3.0 and
// up to MaxCancelKey from 3.2 on.
func AppendKeyData(dst []byte, pid uint32, key []byte) []byte {
	dst, at := begin(dst, BackendKeyData)
	dst = binary.BigEndian.AppendUint32(dst, pid)
	return finish(append(dst, key...), at)
}

// AppendNegotiateProtocolVersion appends NegotiateProtocolVersion: the newest
// minor version of protocol 3 that we speak, sent as the whole version number
// as PostgreSQL does, and the protocol options that we do not know.
func AppendNegotiateProtocolVersion(dst []byte, minor uint16, options []string) []byte {
	dst, at := begin(dst, BackendNegotiateProtocolVersion)
	dst = binary.BigEndian.AppendUint32(dst, uint32(Major)<<16|uint32(minor))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(options)))
	for _, o := range options {
		dst = appendString(dst, o)
	}
	return finish(dst, at)
}

// AppendCommandComplete appends CommandComplete with its tag.
func AppendCommandComplete(dst []byte, tag string) []byte {
	dst, at := begin(dst, BackendCommandComplete)
	return finish(appendString(dst, tag), at)
}

// AppendEmptyQuery appends EmptyQueryResponse.
func AppendEmptyQuery(dst []byte) []byte { return append(dst, BackendEmptyQuery, 0, 0, 0, 4) }

// AppendStartup appends a StartupMessage, which has no type byte.
func AppendStartup(dst []byte, major, minor uint16, params []Param) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(major)<<16|uint32(minor))
	for _, p := range params {
		dst = appendString(appendString(dst, p.Name), p.Value)
	}
	return finish(append(dst, 0), at)
}

// AppendCancelRequest appends a CancelRequest, which has no type byte.
func AppendCancelRequest(dst []byte, pid uint32, key []byte) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, codeCancelRequest)
	dst = binary.BigEndian.AppendUint32(dst, pid)
	return finish(append(dst, key...), at)
}

// AppendSSLRequest appends an SSLRequest, which has no type byte.
func AppendSSLRequest(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, 8)
	return binary.BigEndian.AppendUint32(dst, codeSSLRequest)
}

// AppendQuery appends a simple Query.
func AppendQuery(dst []byte, sql string) []byte {
	dst, at := begin(dst, FrontendQuery)
	return finish(appendString(dst, sql), at)
}

// AppendSync appends Sync.
func AppendSync(dst []byte) []byte { return append(dst, FrontendSync, 0, 0, 0, 4) }

// AppendFlush appends Flush.
func AppendFlush(dst []byte) []byte { return append(dst, FrontendFlush, 0, 0, 0, 4) }

// AppendCopyFail appends CopyFail with the reason that PostgreSQL will report.
func AppendCopyFail(dst []byte, reason string) []byte {
	dst, at := begin(dst, FrontendCopyFail)
	return finish(appendString(dst, reason), at)
}

// AppendTerminate appends Terminate.
func AppendTerminate(dst []byte) []byte { return append(dst, FrontendTerminate, 0, 0, 0, 4) }

// AppendPassword appends a PasswordMessage.
func AppendPassword(dst []byte, password string) []byte {
	dst, at := begin(dst, FrontendPassword)
	return finish(appendString(dst, password), at)
}

// text is a name as it lies in a message or as we keep it.
type text interface{ ~string | ~[]byte }

// AppendParseHead appends the header of a Parse and a statement name. What
// follows the name, rest bytes of it (query text and parameter types, see
// ParseHead), is sent behind it as it is. The whole message must not be longer
// than PostgreSQL accepts: 4 + len(name) + 1 + rest ≤ MaxMessage.
func AppendParseHead[S text](dst []byte, name S, rest int) []byte {
	dst = append(dst, FrontendParse)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(name)+1+rest))
	return append(append(dst, name...), 0)
}

// AppendBindHead appends the header of a Bind, its portal and its statement. What
// follows the names, rest bytes of it (formats and parameters, see BindHead), is
// sent behind it as it is. The whole message must not be longer than PostgreSQL
// accepts: 4 + len(portal) + 1 + len(stmt) + 1 + rest ≤ MaxMessage.
func AppendBindHead[P, S text](dst []byte, portal P, stmt S, rest int) []byte {
	dst = append(dst, FrontendBind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(4+len(portal)+1+len(stmt)+1+rest))
	dst = append(append(dst, portal...), 0)
	return append(append(dst, stmt...), 0)
}

// AppendDescribe appends Describe of a statement or portal (TargetStatement,
// TargetPortal).
func AppendDescribe[S text](dst []byte, target byte, name S) []byte {
	return appendTarget(dst, FrontendDescribe, target, name)
}

// AppendClose appends Close of a statement or portal (TargetStatement,
// TargetPortal).
func AppendClose[S text](dst []byte, target byte, name S) []byte {
	return appendTarget(dst, FrontendClose, target, name)
}

func appendTarget[S text](dst []byte, typ, target byte, name S) []byte {
	dst, at := begin(dst, typ)
	dst = append(append(dst, target), name...)
	return finish(append(dst, 0), at)
}

// AppendParseComplete appends ParseComplete.
func AppendParseComplete(dst []byte) []byte { return append(dst, BackendParseComplete, 0, 0, 0, 4) }

// AppendCloseComplete appends CloseComplete.
func AppendCloseComplete(dst []byte) []byte { return append(dst, BackendCloseComplete, 0, 0, 0, 4) }
