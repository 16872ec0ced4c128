package protocol

import (
	"strings"
	"testing"
)

// TestFullIsAlwaysPushed: a client that sends MaxOwed messages without Sync is
// answered nevertheless, since the message that fills the queue carries a Flush.
func TestFullIsAlwaysPushed(t *testing.T) {
	for _, last := range []byte{FrontendParse, FrontendSync, FrontendQuery, FrontendFunctionCall} {
		var tr Tracker
		tr.Reset()
		for i := range MaxOwed - 1 {
			if v := tr.Offer(FrontendParse, false); v != Forward {
				t.Fatalf("message %d: %d", i, v)
			}
		}
		if tr.Busy() {
			t.Error("busy before anything was pushed")
		}
		want := Forward
		if last == FrontendParse {
			want = ForwardFlush
		}
		if v := tr.Offer(last, false); v != want {
			t.Errorf("%c as the last: %d", last, v)
		}
		if !tr.Busy() || tr.Resume() || tr.Owed() != MaxOwed {
			t.Errorf("full with %c: %s", last, stateText(&tr))
		}
		if v := tr.Offer(FrontendSync, false); v != Full {
			t.Errorf("one more: %d", v)
		}
		if v := tr.Offer(FrontendFlush, false); v != Forward {
			t.Errorf("Flush owes nothing: %d", v)
		}
		tr.Offer(FrontendSync, false)
		a, err := tr.Receive(BackendParseComplete, 0, nil)
		if err != nil || !a.Resume {
			t.Errorf("an answer: %+v, %v", a, err)
		}
		if v := tr.Offer(FrontendSync, false); v != Forward {
			t.Errorf("after an answer: %d", v)
		}
		a, err = tr.Receive(BackendErrorResponse, 0, []byte("42601"))
		if err != nil || a.Swallow || tr.queue.n > 2 {
			t.Errorf("after an error: %+v, %v, %d", a, err, tr.queue.n)
		}
	}
}

// TestFullCountsWhatIsInjected: messages of ours may exceed the bound, the
// client's may not, and a full queue has been pushed.
func TestFullCountsWhatIsInjected(t *testing.T) {
	var tr Tracker
	tr.Reset()
	for range MaxOwed - 1 {
		tr.Offer(FrontendBind, false)
	}
	if v := tr.Inject(FrontendParse); v != ForwardFlush || !tr.Busy() {
		t.Errorf("%d, %s", v, stateText(&tr))
	}
	if v := tr.Inject(FrontendSync); v != Forward || tr.Owed() != MaxOwed+1 {
		t.Errorf("%d, %s", v, stateText(&tr))
	}
}

// TestMayInject: a message of ours may go before the client's next one only
// where neither can be held or needs a Flush behind it.
func TestMayInject(t *testing.T) {
	var tr Tracker
	tr.Reset()
	for tr.MayInject() {
		if v := tr.Inject(FrontendClose); v != Forward {
			t.Fatalf("ours, with %d owed: %d", tr.Owed(), v)
		}
		if v := tr.Offer(FrontendBind, false); v != Forward {
			t.Fatalf("the client's, with %d owed: %d", tr.Owed(), v)
		}
	}
	if tr.Owed() < MaxOwed-2 || tr.Owed() >= MaxOwed {
		t.Errorf("ended with %d owed", tr.Owed())
	}
	for reach, want := range map[string]bool{
		"": true, "> P": true, "> Q": true, "> Q!": false, "> E!": false, "> Q!|< G": false, "> Q!|< G|> c": false, "> Q!|< G|< E 22P02": true,
	} {
		tr.Reset()
		for _, e := range strings.Split(reach, "|") {
			if e != "" {
				runDialogue(&tr, e, visits{})
			}
		}
		if got := tr.MayInject(); got != want {
			t.Errorf("after %q: %v", reach, got)
		}
	}
}

// TestRecoverOfFullQueue: what Recover adds may exceed the bound, and leads back.
func TestRecoverOfFullQueue(t *testing.T) {
	var tr Tracker
	tr.Reset()
	for range MaxOwed {
		tr.Offer(FrontendBind, false)
	}
	tr.Orphan()
	if got := messageTypes(tr.Recover(nil)); got != "Q S" || !tr.Busy() {
		t.Errorf("recover %s: %s", got, stateText(&tr))
	}
	for range MaxOwed {
		if _, err := tr.Receive(BackendBindComplete, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range []string{"< N", "< C", "< Z I", "< Z I"} {
		if got := runDialogue(&tr, e, visits{}); !strings.HasPrefix(got, "swallow") {
			t.Errorf("%s: %s", e, got)
		}
	}
	if !tr.Idle() {
		t.Error(stateText(&tr))
	}
}

// TestHeldSyncsAreBounded: one COPY holds so many Syncs and no more.
func TestHeldSyncsAreBounded(t *testing.T) {
	var tr Tracker
	tr.Reset()
	tr.Offer(FrontendQuery, true)
	for _, e := range []string{"< G", "> d"} {
		runDialogue(&tr, e, visits{})
	}
	for range maxHeldSyncs + 100 {
		if v := tr.Offer(FrontendSync, false); v != Drop {
			t.Fatalf("%d", v)
		}
	}
	a, err := tr.Receive(BackendErrorResponse, 0, []byte("22P02"))
	if err != nil || a.Syncs != maxHeldSyncs || tr.Owed() != 1+maxHeldSyncs {
		t.Errorf("%+v, %v, %s", a, err, stateText(&tr))
	}
	for range 1 + maxHeldSyncs {
		if a, err := tr.Receive(BackendReadyForQuery, 'I', nil); err != nil || !a.Ready {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if !tr.Idle() {
		t.Error(stateText(&tr))
	}
}

// TestIdleTrackerIsSmall: what a burst needed is given back.
func TestIdleTrackerIsSmall(t *testing.T) {
	var tr Tracker
	tr.Reset()
	burst := func(n int) {
		for range n {
			tr.Offer(FrontendQuery, false)
		}
		for range n {
			if _, err := tr.Receive(BackendReadyForQuery, 'I', nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	burst(ringInline)
	if tr.queue.heap != nil {
		t.Errorf("%d entries need a heap ring", ringInline)
	}
	burst(ringKeep)
	if got := len(tr.queue.heap); got != ringKeep {
		t.Errorf("a ring of %d is kept, want %d", got, ringKeep)
	}
	burst(MaxOwed)
	if got := len(tr.queue.heap); got != 0 {
		t.Errorf("a ring of %d is kept", got)
	}
	tr.Offer(FrontendQuery, false)
	for range MaxOwed - 1 {
		tr.Offer(FrontendQuery, false)
	}
	tr.Reset()
	if len(tr.queue.heap) != 0 || !tr.Idle() {
		t.Errorf("after Reset a ring of %d, %s", len(tr.queue.heap), stateText(&tr))
	}
}

// TestRingKeepsOrder: growing in the middle of the array keeps the order.
func TestRingKeepsOrder(t *testing.T) {
	var r ring
	next, want := 0, 0
	push := func() {
		r.push(entry{kind: kind(next % 7), flags: uint8(next)})
		next++
	}
	pop := func() {
		if e := *r.head(); e.kind != kind(want%7) || e.flags != uint8(want) {
			t.Fatalf("entry %d is %+v", want, e)
		}
		r.pop()
		want++
	}
	for round := range 300 {
		for range round % 40 {
			push()
		}
		for range round % 37 {
			if r.n > 0 {
				pop()
			}
		}
	}
	for r.n > 0 {
		pop()
	}
	if next != want || next < 1000 {
		t.Errorf("%d pushed, %d popped", next, want)
	}
}

// TestResetForgetsEverything: whatever came before.
func TestResetForgetsEverything(t *testing.T) {
	for _, before := range []string{"> P", "> P|< E 1", "> Q!|< G|> S", "> Q!|< G|> P|< E 08P01", "< E 57P01", "> Q|< Z T", "> P|> H|< 1", "~ Q|* orphan"} {
		var tr, fresh Tracker
		tr.Reset()
		fresh.Reset()
		for _, e := range strings.Split(before, "|") {
			runDialogue(&tr, e, visits{})
		}
		tr.Reset()
		tr.queue.inline = fresh.queue.inline // what popped entries have left
		if got, want := tr, fresh; got.queue.n != 0 || stateText(&got) != stateText(&want) ||
			got.group != want.group || got.gate != want.gate || got.skip || got.orphan || got.waiting || got.held != 0 || got.loose != 0 {
			t.Errorf("after %q: %+v", before, got)
		}
	}
}

func BenchmarkTrackerExtended(b *testing.B) {
	var tr Tracker
	tr.Reset()
	b.ReportAllocs()
	for b.Loop() {
		for _, typ := range []byte("PBDES") {
			tr.Offer(typ, false)
		}
		for _, typ := range []byte("12TDCZ") {
			if _, err := tr.Receive(typ, 'I', nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkTrackerSimple(b *testing.B) {
	var tr Tracker
	tr.Reset()
	b.ReportAllocs()
	for b.Loop() {
		tr.Offer(FrontendQuery, false)
		for _, typ := range []byte("TDCZ") {
			if _, err := tr.Receive(typ, 'I', nil); err != nil {
				b.Fatal(err)
			}
		}
	}
}
