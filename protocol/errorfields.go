package protocol

// Field types of ErrorResponse and NoticeResponse (PostgreSQL documentation,
// "Error and Notice Message Fields").
const (
	fieldSeverity          = 'S'
	fieldSeverityUnchanged = 'V'
	fieldCode              = 'C'
	fieldMessage           = 'M'
	fieldDetail            = 'D'
	fieldHint              = 'H'
)

// Severities that we write and look for.
const (
	SeverityError   = "ERROR"
	SeverityFatal   = "FATAL"
	SeverityPanic   = "PANIC"
	SeverityNotice  = "NOTICE"
	SeverityWarning = "WARNING"
)

// ErrorFields are the fields of an ErrorResponse or NoticeResponse that
// pg-kinetic writes and reads. Detail and Hint are left out when empty.
type ErrorFields struct{ Severity, Code, Message, Detail, Hint string }

// AppendError appends an ErrorResponse.
func AppendError(dst []byte, f ErrorFields) []byte {
	return appendFields(dst, BackendErrorResponse, f)
}

// AppendNotice appends a NoticeResponse.
func AppendNotice(dst []byte, f ErrorFields) []byte {
	return appendFields(dst, BackendNoticeResponse, f)
}

func appendFields(dst []byte, typ byte, f ErrorFields) []byte {
	dst, at := begin(dst, typ)
	dst = appendField(dst, fieldSeverity, f.Severity)
	dst = appendField(dst, fieldSeverityUnchanged, f.Severity)
	dst = appendField(dst, fieldCode, f.Code)
	dst = appendField(dst, fieldMessage, f.Message)
	if f.Detail != "" {
		dst = appendField(dst, fieldDetail, f.Detail)
	}
	if f.Hint != "" {
		dst = appendField(dst, fieldHint, f.Hint)
	}
	return finish(append(dst, 0), at)
}

func appendField(dst []byte, typ byte, s string) []byte {
	return appendString(append(dst, typ), s)
}

// nextField returns the first field of a body and what follows it; ok is false
// at the end and where the body is malformed.
func nextField(body []byte) (typ byte, value, rest []byte, ok bool) {
	if len(body) == 0 || body[0] == 0 {
		return 0, nil, nil, false
	}
	value, rest, ok = cutString(body[1:])
	return body[0], value, rest, ok
}

func findField(body []byte, want byte) []byte {
	for {
		typ, value, rest, ok := nextField(body)
		if !ok {
			return nil
		}
		if typ == want {
			return value
		}
		body = rest
	}
}

// DecodeError decodes the body of an ErrorResponse or NoticeResponse, the
// header not included, as far as it is well formed. Severity is the one that is
// not translated where the server sends it (PostgreSQL 9.6 and later).
func DecodeError(body []byte) ErrorFields {
	var f ErrorFields
	unchanged := ""
	for {
		typ, value, rest, ok := nextField(body)
		if !ok {
			break
		}
		switch typ {
		case fieldSeverity:
			f.Severity = string(value)
		case fieldSeverityUnchanged:
			unchanged = string(value)
		case fieldCode:
			f.Code = string(value)
		case fieldMessage:
			f.Message = string(value)
		case fieldDetail:
			f.Detail = string(value)
		case fieldHint:
			f.Hint = string(value)
		}
		body = rest
	}
	if unchanged != "" {
		f.Severity = unchanged
	}
	return f
}

// ErrorCode returns the SQLSTATE in an ErrorResponse's body, a part of it, or
// nil. It does not allocate.
func ErrorCode(body []byte) []byte { return findField(body, fieldCode) }

// ErrorSeverity returns the severity that is not translated, else the one that
// is: a part of the body, or nil. It does not allocate.
func ErrorSeverity(body []byte) []byte {
	if v := findField(body, fieldSeverityUnchanged); v != nil {
		return v
	}
	return findField(body, fieldSeverity)
}

// ErrorEndsSession reports whether the server closes the connection after this
// ErrorResponse: its severity is FATAL or PANIC.
func ErrorEndsSession(body []byte) bool {
	s := string(ErrorSeverity(body))
	return s == SeverityFatal || s == SeverityPanic
}
