package protocol

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// TestAppendBackend: an independent decoder reads what is encoded for clients.
func TestAppendBackend(t *testing.T) {
	f := func(p []byte, want pgproto3.BackendMessage) {
		t.Helper()
		if _, size, err := PeekBackend(p); err != nil || size != len(p) {
			t.Errorf("%q: size %d, %v", p, size, err)
		}
		got, err := pgproto3.NewFrontend(bytes.NewReader(p), nil).Receive()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v, want %#v", p, got, err, want)
		}
	}
	f(AppendReadyForQuery(nil, 'T'), &pgproto3.ReadyForQuery{TxStatus: 'T'})
	f(AppendParameterStatus(nil, "a", "b c"), &pgproto3.ParameterStatus{Name: "a", Value: "b c"})
	f(AppendAuthenticationOk(nil), &pgproto3.AuthenticationOk{})
	f(AppendKeyData(nil, 1<<31, []byte("0123456789")), &pgproto3.BackendKeyData{ProcessID: 1 << 31, SecretKey: []byte("0123456789")})
	f(AppendNegotiateProtocolVersion(nil, 2, []string{"_pq_.a", "_pq_.b"}), &pgproto3.NegotiateProtocolVersion{
		NewestMinorProtocol: 3<<16 | 2, UnrecognizedOptions: []string{"_pq_.a", "_pq_.b"},
	})
	f(AppendCommandComplete(nil, "SELECT 1"), &pgproto3.CommandComplete{CommandTag: []byte("SELECT 1")})
	f(AppendEmptyQuery(nil), &pgproto3.EmptyQueryResponse{})
	f(AppendParseComplete(nil), &pgproto3.ParseComplete{})
	f(AppendCloseComplete(nil), &pgproto3.CloseComplete{})
	f(AppendError(nil, ErrorFields{Severity: "FATAL", Code: "53300", Message: "m", Detail: "d", Hint: "h"}), &pgproto3.ErrorResponse{
		Severity: "FATAL", SeverityUnlocalized: "FATAL", Code: "53300", Message: "m", Detail: "d", Hint: "h",
	})
	f(AppendNotice(nil, ErrorFields{Severity: "NOTICE", Code: "00000", Message: ""}), &pgproto3.NoticeResponse{
		Severity: "NOTICE", SeverityUnlocalized: "NOTICE", Code: "00000",
	})
}

// TestAppendFrontend: the same for what is encoded for servers.
func TestAppendFrontend(t *testing.T) {
	f := func(p []byte, want pgproto3.FrontendMessage) {
		t.Helper()
		got, err := pgproto3.NewBackend(bytes.NewReader(p), nil).Receive()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v, want %#v", p, got, err, want)
		}
	}
	f(AppendQuery(nil, "select 1"), &pgproto3.Query{String: "select 1"})
	f(AppendSync(nil), &pgproto3.Sync{})
	f(AppendFlush(nil), &pgproto3.Flush{})
	f(AppendCopyFail(nil, "why"), &pgproto3.CopyFail{Message: "why"})
	f(AppendTerminate(nil), &pgproto3.Terminate{})
	f(AppendPassword(nil, "secret"), &pgproto3.PasswordMessage{Password: "secret"})
	f(AppendDescribe(nil, TargetPortal, "p"), &pgproto3.Describe{ObjectType: 'P', Name: "p"})
	f(AppendClose(nil, TargetStatement, []byte("s")), &pgproto3.Close{ObjectType: 'S', Name: "s"})
	parse := "select $1, $2\x00\x00\x02\x00\x00\x00\x17\x00\x00\x00\x19"
	f(append(AppendParseHead(nil, "s", len(parse)), parse...), &pgproto3.Parse{
		Name: "s", Query: "select $1, $2", ParameterOIDs: []uint32{23, 25},
	})
	bind := "\x00\x01\x00\x01\x00\x01\x00\x00\x00\x02ab\x00\x00"
	f(append(AppendBindHead(nil, []byte("p"), "s", len(bind)), bind...), &pgproto3.Bind{
		DestinationPortal: "p", PreparedStatement: "s", ParameterFormatCodes: []int16{1}, Parameters: [][]byte{[]byte("ab")}, ResultFormatCodes: []int16{},
	})
}

func TestAppendStartupMessages(t *testing.T) {
	f := func(p []byte, want pgproto3.FrontendMessage) {
		t.Helper()
		got, err := pgproto3.NewBackend(bytes.NewReader(p), nil).ReceiveStartupMessage()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %#v, %v, want %#v", p, got, err, want)
		}
	}
	f(AppendStartup(nil, 3, 2, []Param{{"user", "u"}, {"database", "d"}}), &pgproto3.StartupMessage{
		ProtocolVersion: 3<<16 | 2, Parameters: map[string]string{"user": "u", "database": "d"},
	})
	f(AppendSSLRequest(nil), &pgproto3.SSLRequest{})
	f(AppendCancelRequest(nil, 7, []byte("abcd")), &pgproto3.CancelRequest{ProcessID: 7, SecretKey: []byte("abcd")})
}

// TestAppendKeepsWhatIsThere: the encoders append, whatever dst holds.
func TestAppendKeepsWhatIsThere(t *testing.T) {
	dst := []byte("before")
	dst = AppendError(dst, ErrorFields{Severity: "ERROR", Code: "XX000", Message: "m"})
	dst = AppendReadyForQuery(dst, 'I')
	rest, ok := bytes.CutPrefix(dst, []byte("before"))
	if !ok {
		t.Fatalf("%q", dst)
	}
	_, size, err := PeekBackend(rest)
	if err != nil || string(rest[size:]) != "Z\x00\x00\x00\x05I" {
		t.Errorf("%q: %d, %v", rest, size, err)
	}
}

func TestDecodeError(t *testing.T) {
	f := func(body string, want ErrorFields, ends bool) {
		t.Helper()
		if got := DecodeError([]byte(body)); got != want {
			t.Errorf("%q: %+v", body, got)
		}
		if got := string(ErrorCode([]byte(body))); got != want.Code {
			t.Errorf("%q: code %q", body, got)
		}
		if got := string(ErrorSeverity([]byte(body))); got != want.Severity {
			t.Errorf("%q: severity %q", body, got)
		}
		if got := ErrorEndsSession([]byte(body)); got != ends {
			t.Errorf("%q: ends the session: %v", body, got)
		}
	}
	whole := AppendError(nil, ErrorFields{Severity: "ERROR", Code: "53300", Message: "m", Detail: "d", Hint: "h"})
	f(string(whole[HeaderLen:]), ErrorFields{Severity: "ERROR", Code: "53300", Message: "m", Detail: "d", Hint: "h"}, false)
	f("SFEHLER\x00VFATAL\x00C57P01\x00\x00", ErrorFields{Severity: "FATAL", Code: "57P01"}, true)
	f("SPANIK\x00VPANIC\x00\x00", ErrorFields{Severity: "PANIC"}, true)
	f("SERROR\x00Fpostgres.c\x00L1\x00C22012\x00\x00", ErrorFields{Severity: "ERROR", Code: "22012"}, false)
	f("", ErrorFields{}, false)
	f("C22012", ErrorFields{}, false)
	f("C22012\x00M no end", ErrorFields{Code: "22012"}, false)
	f("\x00C22012\x00", ErrorFields{}, false)
}

func TestDecodeBodies(t *testing.T) {
	f := func(what string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	two := func(a, b []byte, ok bool) []any { return []any{string(a), string(b), ok} }
	one := func(a []byte, ok bool) []any { return []any{string(a), ok} }
	target := func(k byte, a []byte, ok bool) []any { return []any{k, string(a), ok} }
	f("Parse", two(ParseMessage([]byte("s\x00select\x00\x00\x00"))), []any{"s", "select", true})
	f("Parse cut", two(ParseMessage([]byte("s\x00sel"))), []any{"s", "", false})
	f("Parse cut", two(ParseMessage([]byte("s"))), []any{"", "", false})
	name, text, ok := ParseHead([]byte("name\x00sel"))
	f("Parse head", []any{string(name), text, ok}, []any{"name", 5, true})
	_, _, ok = ParseHead([]byte("name"))
	f("Parse head cut", ok, false)
	f("Query", one(QueryText([]byte("select\x00"))), []any{"select", true})
	f("Query cut", one(QueryText([]byte("select"))), []any{"", false})
	f("Bind", two(BindNames([]byte("p\x00s\x00\x00"))), []any{"p", "s", true})
	f("Execute", one(ExecutePortal([]byte("\x00\x00\x00\x00\x00"))), []any{"", true})
	f("Describe", target(DescribeTarget([]byte("Sname\x00"))), []any{byte('S'), "name", true})
	f("Describe", target(DescribeTarget([]byte("Xname\x00"))), []any{byte('X'), "name", false})
	f("Describe", target(DescribeTarget(nil)), []any{byte(0), "", false})
	f("Close", target(CloseTarget([]byte("P\x00"))), []any{byte('P'), "", true})
	f("Close of too much", target(CloseTarget([]byte("Ps\x00s\x00"))), []any{byte('P'), "s", false})
	f("Describe cut", target(DescribeTarget([]byte("Ss"))), []any{byte('S'), "", false})
	portal, stmt, rest, ok := BindHead([]byte("po\x00s\x00\x00\x00"))
	f("Bind head", []any{string(portal), string(stmt), rest, ok}, []any{"po", "s", 5, true})
	_, _, _, ok = BindHead([]byte("po\x00s"))
	f("Bind head cut", ok, false)
	f("Parse body", two(ParseBody([]byte("q\x00\x00\x01abcd"))), []any{"q", "abcd", true})
	f("Parse body without types", two(ParseBody([]byte("q\x00\x00\x00"))), []any{"q", "", true})
	for _, s := range []string{"", "q", "q\x00", "q\x00\x00", "q\x00\x00\x01abc", "q\x00\x00\x01abcde", "q\x00\x00\x00a"} {
		if _, _, ok := ParseBody([]byte(s)); ok {
			t.Errorf("Parse body %q accepted", s)
		}
	}
	f("ParameterStatus", two(DecodeParameterStatus([]byte("a\x00b\x00"))), []any{"a", "b", true})
	f("CommandComplete", one(CommandTag([]byte("SELECT 1\x00"))), []any{"SELECT 1", true})
	for _, s := range []string{"I", "T", "E"} {
		status, ok := DecodeReady([]byte(s))
		f("ReadyForQuery "+s, []any{status, ok}, []any{s[0], true})
	}
	for _, s := range []string{"", "X", "II"} {
		if _, ok := DecodeReady([]byte(s)); ok {
			t.Errorf("ReadyForQuery %q accepted", s)
		}
	}
}

// TestCodes: an SQLSTATE has five of 0-9 and A-Z.
func TestCodes(t *testing.T) {
	for _, c := range []string{
		CodeConnectionFailure, CodeProtocolViolation, CodeFeatureNotSupported, CodeInvalidParameterValue,
		CodeIdleInTransactionTimeout, CodeTransactionTimeout, CodeInvalidSQLStatementName, CodeInvalidAuthorization,
		CodeInvalidPassword, CodeInvalidCatalogName, CodeSerializationFailure, CodeInsufficientPrivilege,
		CodeDuplicatePreparedStatement, CodeUndefinedObject, CodeTooManyConnections, CodeConfigurationLimitExceeded, CodeProgramLimitExceeded,
		CodeCantChangeRuntimeParam, CodeQueryCanceled, CodeAdminShutdown, CodeCrashShutdown, CodeCannotConnectNow,
		CodeIdleSessionTimeout, CodeInternalError,
	} {
		if len(c) != 5 || strings.Trim(c, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
			t.Errorf("%q", c)
		}
	}
}
