package protocol

import "testing"

// twenty is what a pgbench client sends for 20 prepared SELECTs, or what PostgreSQL answers.
func twenty(messages ...[]byte) (all []byte) {
	for range 20 {
		for _, m := range messages {
			all = append(all, m...)
		}
	}
	return all
}

func benchMessage(typ byte, body string) []byte {
	p, at := begin(nil, typ)
	return finish(append(p, body...), at)
}

var (
	bindBody = "\x00P0_1\x00\x00\x00\x00\x01\x00\x00\x00\x05123456\x00\x00"
	requests = twenty(benchMessage(FrontendBind, bindBody), benchMessage(FrontendDescribe, "P\x00"),
		benchMessage(FrontendExecute, "\x00\x00\x00\x00\x00"), AppendSync(nil))
	answers = twenty(benchMessage(BackendBindComplete, ""), benchMessage(BackendRowDescription, "\x00\x01abalance\x00\x00\x00\x40\x03\x00\x03"+
		"\x00\x00\x00\x17\x00\x04\xff\xff\xff\xff\x00\x00"), benchMessage(BackendDataRow, "\x00\x01\x00\x00\x00\x010"),
		AppendCommandComplete(nil, "SELECT 1"), AppendReadyForQuery(nil, 'I'))
)

func frames(b *testing.B, p []byte, peek func([]byte) (byte, int, error)) {
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		for rest := p; len(rest) > 0; {
			_, size, err := peek(rest)
			if err != nil || size == 0 {
				b.Fatal(size, err)
			}
			rest = rest[size:]
		}
	}
}

func BenchmarkFrontendFrames(b *testing.B) { frames(b, requests, PeekFrontend) }

func BenchmarkBackendFrames(b *testing.B) { frames(b, answers, PeekBackend) }

// BenchmarkRenameBind gives a Bind the name of the server's copy: its head is read and written anew, its values stay where they
// are.
func BenchmarkRenameBind(b *testing.B) {
	body := []byte(bindBody)
	dst := make([]byte, 0, 64)
	b.ReportAllocs()
	for b.Loop() {
		portal, _, rest, ok := BindHead(body)
		if !ok {
			b.Fatal("no Bind")
		}
		dst = AppendBindHead(dst[:0], portal, "pgk_17", len(body)-rest)
	}
}

// BenchmarkError writes what a refused request gets.
func BenchmarkError(b *testing.B) {
	fields := ErrorFields{
		Severity: "ERROR", Code: "53300", Message: "pg-kinetic: route queue full",
		Detail: "route app/app/web/default: 8 of 8 in flight, 4 of 4 waiting", Hint: "retry after 12 ms",
	}
	dst := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendReadyForQuery(AppendError(dst[:0], fields), 'I')
	}
}

func BenchmarkStartup(b *testing.B) {
	p := AppendStartup(nil, 3, 0, []Param{{"user", "app"}, {"database", "app"}, {"application_name", "web"}, {"client_encoding", "UTF8"}})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := DecodeStartup(p); err != nil {
			b.Fatal(err)
		}
	}
}
