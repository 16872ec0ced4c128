//go:build !race

package protocol

import "testing"

func noAllocations(t *testing.T, what string, f func()) {
	t.Helper()
	if n := testing.AllocsPerRun(100, f); n != 0 {
		t.Errorf("%s: %v allocations", what, n)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	var tr Tracker
	tr.Reset()
	code := []byte("22012")
	noAllocations(t, "tracker", func() {
		for _, typ := range []byte("PBDESQSPS") {
			tr.Offer(typ, false)
		}
		for _, typ := range []byte("12TDCZTDCZZ1Z") {
			if _, err := tr.Receive(typ, 'I', code); err != nil {
				t.Fatal(err)
			}
		}
	})
	noAllocations(t, "a message of ours", func() {
		if tr.MayInject() {
			tr.Inject(FrontendClose)
		}
		tr.Offer(FrontendBind, false)
		tr.Offer(FrontendSync, false)
		for _, typ := range []byte("32Z") {
			if _, err := tr.Receive(typ, 'I', code); err != nil {
				t.Fatal(err)
			}
		}
	})
	noAllocations(t, "a deep pipeline", func() {
		for range ringKeep / 2 {
			tr.Offer(FrontendQuery, false)
		}
		for range ringKeep / 2 {
			if _, err := tr.Receive(BackendReadyForQuery, 'I', nil); err != nil {
				t.Fatal(err)
			}
		}
	})
	var marks CopyMarks
	names := [][]byte{nil, []byte("s"), []byte("another statement")}
	noAllocations(t, "marks", func() {
		for _, n := range names {
			marks.Parse(n, false)
			marks.Bind(n, n)
			marks.Execute(n)
			marks.Close(TargetPortal, n)
		}
		marks.Settle()
	})
	dst := make([]byte, 0, 1024)
	failure := ErrorFields{Severity: "ERROR", Code: "53300", Message: "m", Detail: "d", Hint: "h"}
	noAllocations(t, "encoders", func() {
		dst = AppendError(dst[:0], failure)
		dst = AppendReadyForQuery(dst, 'I')
		dst = AppendSync(dst)
		dst = AppendQuery(dst, "select 1")
		dst = AppendParameterStatus(dst, "a", "b")
	})
	body := AppendError(nil, failure)[HeaderLen:]
	noAllocations(t, "decoders", func() {
		if string(ErrorCode(body)) != "53300" || ErrorEndsSession(body) {
			t.Fatal("wrong fields")
		}
		if _, _, ok := ParseMessage([]byte("s\x00select\x00")); !ok {
			t.Fatal("no names")
		}
		if _, _, err := PeekBackend(dst); err != nil {
			t.Fatal(err)
		}
	})
	parse, bind := []byte("s\x00select\x00\x00\x00"), []byte("p\x00s\x00\x00\x00")
	noAllocations(t, "new heads", func() {
		_, at, _ := ParseHead(parse)
		dst = AppendParseHead(dst[:0], "pgk_1", len(parse)-at)
		portal, _, at, _ := BindHead(bind)
		dst = AppendBindHead(dst, portal, "pgk_1", len(bind)-at)
		dst = AppendDescribe(dst, TargetStatement, "pgk_1")
		dst = AppendClose(dst, TargetStatement, "pgk_1")
		if _, _, ok := ParseBody(parse[at:]); !ok {
			t.Fatal("no text")
		}
		dst = RenameInError(dst[:0], body, "pgk_1", "s")
	})
	noAllocations(t, "answers made here", func() {
		for range 3 {
			if v := tr.Local(FrontendParse); v != AnswerNow {
				t.Fatal(v)
			}
			tr.Prepare()
			tr.Offer(FrontendBind, false)
			tr.Local(FrontendClose)
			tr.Offer(FrontendSync, false)
			for _, typ := range []byte("12Z") {
				before := tr.Done()
				if _, err := tr.Receive(typ, 'I', code); err != nil {
					t.Fatal(err)
				}
				for n := before + 1; n <= tr.Done(); n++ {
					if tr.Outcome(n) != Executed {
						t.Fatal(n)
					}
				}
			}
		}
	})
	noAllocations(t, "recovery", func() {
		tr.Offer(FrontendParse, false)
		tr.Orphan()
		dst = tr.Recover(dst[:0])
		for _, typ := range []byte("1NCZZ") {
			if _, err := tr.Receive(typ, 'I', nil); err != nil {
				t.Fatal(err)
			}
		}
	})
}
