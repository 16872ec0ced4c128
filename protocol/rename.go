package protocol

import "bytes"

// RenameInError appends an ErrorResponse whose body (without its header) names a
// prepared statement by the server's name from, with the name to in its place: a
// client knows its statements by names of its own. Message, detail and hint are
// rewritten, in the errors that name a prepared statement:
//
//   - 26000: prepared statement "x" does not exist
//   - 42P05: prepared statement "x" already exists
//   - 08P01: bind message supplies 2 parameters, but prepared statement "x"
//     requires 1
//
// Any other error is appended as it is, since a name that occurs in it is not the
// server's but a user's. The quotes are not looked for: they depend on the
// server's lc_messages («x», »x«). What counts is the name, not part of a longer
// word. from must not be empty; to may be, as the name of the unnamed statement
// is. From where body is malformed it is appended as it is.
func RenameInError[S text](dst, body []byte, from string, to S) []byte {
	dst, at := begin(dst, BackendErrorResponse)
	if !namesStatement(ErrorCode(body)) {
		return finish(append(dst, body...), at)
	}
	for {
		typ, value, rest, ok := nextField(body)
		if !ok {
			return finish(append(dst, body...), at)
		}
		dst = append(dst, typ)
		switch typ {
		case fieldMessage, fieldDetail, fieldHint:
			dst = appendRenamed(dst, value, from, to)
		default:
			dst = append(dst, value...)
		}
		dst = append(dst, 0)
		body = rest
	}
}

func namesStatement(code []byte) bool {
	switch string(code) {
	case CodeInvalidSQLStatementName, CodeDuplicatePreparedStatement, CodeProtocolViolation:
		return true
	}
	return false
}

// appendRenamed appends value, each from in it that is a word replaced by to.
func appendRenamed[S text](dst, value []byte, from string, to S) []byte {
	done := 0 // value[:done] is appended
	for at := 0; ; {
		i := bytes.Index(value[at:], []byte(from))
		if i < 0 {
			return append(dst, value[done:]...)
		}
		i += at
		end := i + len(from)
		if (i > 0 && wordByte(value[i-1])) || (end < len(value) && wordByte(value[end])) {
			at = i + 1
			continue
		}
		dst = append(append(dst, value[done:i]...), to...)
		done, at = end, end
	}
}

// wordByte reports whether a name such as the server's could go on with b. Bytes
// outside ASCII end it: they are quotes or the text of a language.
func wordByte(b byte) bool {
	return b == '_' || '0' <= b && b <= '9' || 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z'
}
