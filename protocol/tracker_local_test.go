package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// reached is a tracker behind the events of a dialogue, separated by bars.
func reached(reach string) *Tracker {
	t := &Tracker{}
	t.Reset()
	for _, event := range strings.Split(reach, "|") {
		if event != "" {
			runDialogue(t, event, visits{})
		}
	}
	return t
}

// localStates are the states in which what is to be answered here may find the
// tracker, as docs/answers-owed.md names them.
var localStates = []struct{ name, reach string }{
	{"nothing is owed", ""},
	{"answers are owed, no ReadyForQuery among them", "> P|> B"},
	{"a ReadyForQuery is owed", "> P|> S"},
	{"in a block", "> Q|< C|< Z T"},
	{"in a failed block", "> Q|< E 22012|< Z E"},
	{"behind messages of a failed block", "> Q|< E 22012|< Z E|> B"},
	{"*skip*", "> P|< E 42601"},
	{"a marked Execute or Query is unanswered", "> Q!"},
	{"COPY reads data", "> Q!|< G"},
	{"CopyDone, CopyFail or what fails the COPY was sent", "> Q!|< G|> c"},
	{"4095 answers are owed", strings.Repeat("> P|", MaxOwed-1)},
	{"4096 answers are owed", strings.Repeat("> P|", MaxOwed)},
}

// localTable is what Local says in each of them, as the documentation has it.
func localTable() string {
	words := [...]string{"send", "send, Flush", "hold", "drop", "full", "now", "later"}
	var out strings.Builder
	out.WriteString("| state | Parse, Describe | Close |\n|---|---|---|\n")
	for _, s := range localStates {
		parse, describe := reached(s.reach).Local(FrontendParse), reached(s.reach).Local(FrontendDescribe)
		if parse != describe {
			return fmt.Sprintf("%s: Parse %s, Describe %s", s.name, words[parse], words[describe])
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", s.name, words[parse], words[reached(s.reach).Local(FrontendClose)])
	}
	return out.String()
}

// TestDocumentedLocal: the table in the documentation is what Local says.
func TestDocumentedLocal(t *testing.T) {
	documented(t, "local", localTable())
}

// TestMayAnswerOnlyThese: whatever the state, nothing else is answered here.
func TestMayAnswerOnlyThese(t *testing.T) {
	for _, s := range localStates {
		for _, typ := range []byte("QBESHFdcf") {
			tr, offered := reached(s.reach), reached(s.reach)
			if tr.MayAnswer(typ) {
				t.Errorf("%s: %c may be answered here", s.name, typ)
			}
			if got, want := tr.Local(typ), offered.Offer(typ, false); got != want {
				t.Errorf("%s: %c as a local message: %d, offered %d", s.name, typ, got, want)
			}
		}
	}
}

// TestLocalNeverFills: a queue that is full has been pushed, and what is answered
// here can push nothing.
func TestLocalNeverFills(t *testing.T) {
	tr := reached("> P")
	for tr.MayAnswer(FrontendClose) {
		if v := tr.Local(FrontendClose); v != AnswerLater {
			t.Fatalf("%d answers are owed: %d", tr.Owed(), v)
		}
	}
	if tr.Owed() != MaxOwed-1 || tr.Busy() || !tr.Resume() {
		t.Errorf("ended with %s", stateText(tr))
	}
	if v := tr.Local(FrontendClose); v != ForwardFlush || !tr.Busy() || tr.Resume() {
		t.Errorf("one more: %d, %s", v, stateText(tr))
	}
	a, err := tr.Receive(BackendParseComplete, 0, nil)
	if err != nil || a.Local != MaxOwed-2 || tr.Owed() != 1 {
		t.Errorf("%+v, %v, %s", a, err, stateText(tr))
	}
}

// TestPrepareAtTheBound: a Parse of ours may take the last place; the message
// that it was for comes when there is room.
func TestPrepareAtTheBound(t *testing.T) {
	tr := reached(strings.Repeat("> B|", MaxOwed-1))
	if v := tr.Prepare(); v != ForwardFlush || !tr.Busy() {
		t.Fatalf("%d, %s", v, stateText(tr))
	}
	if v := tr.Offer(FrontendBind, false); v != Full {
		t.Fatalf("the client's: %d", v)
	}
	if v := tr.Prepare(); v != Full {
		t.Fatalf("another one: %d", v)
	}
	if a, err := tr.Receive(BackendBindComplete, 0, nil); err != nil || !a.Resume {
		t.Fatalf("%+v, %v", a, err)
	}
	if v := tr.Offer(FrontendBind, false); v != ForwardFlush {
		t.Errorf("the client's, again: %d", v)
	}
}

// names is a caller that keeps its operations by the numbers of the tracker: what
// prepared statements a session has.
type names struct {
	t    *testing.T
	tr   Tracker
	todo []struct {
		number uint64
		apply  func()
	}
	has map[string]bool
}

// sends counts a message whose effect is apply.
func (c *names) sends(typ byte, apply func()) {
	if v := c.tr.Local(typ); v == AnswerNow {
		apply()
		return
	}
	c.todo = append(c.todo, struct {
		number uint64
		apply  func()
	}{c.tr.Sent(), apply})
}

func (c *names) gets(answers string, status byte) {
	c.t.Helper()
	for _, typ := range []byte(answers) {
		if _, err := c.tr.Receive(typ, status, []byte("42601")); err != nil {
			c.t.Fatal(err)
		}
		for len(c.todo) > 0 && c.todo[0].number <= c.tr.Done() {
			if c.tr.Outcome(c.todo[0].number) == Executed {
				c.todo[0].apply()
			}
			c.todo = c.todo[1:]
		}
	}
}

// TestPS07OperationsSettleInOrder: DEALLOCATE ALL in the middle of a pipeline
// takes those before it and none behind it, and what an error removes never was.
func TestPS07OperationsSettleInOrder(t *testing.T) {
	c := &names{t: t, has: map[string]bool{}}
	c.tr.Reset()
	parse := func(name string) { c.sends(FrontendParse, func() { c.has[name] = true }) }
	drop := func(name string) { c.sends(FrontendClose, func() { delete(c.has, name) }) }
	nothing := func() {}
	deallocateAll := func() { clear(c.has) }
	want := func(names string) {
		t.Helper()
		got := ""
		for _, n := range []string{"a", "b", "c", "d"} {
			if c.has[n] {
				got += n
			}
		}
		if got != names || len(c.todo) > 0 {
			t.Errorf("the session has %q, want %q; %d operations are left", got, names, len(c.todo))
		}
	}
	parse("a") // at once
	c.sends(FrontendBind, nothing)
	parse("b") // behind the Bind
	c.sends(FrontendExecute, deallocateAll)
	parse("c")
	c.sends(FrontendSync, nothing)
	c.gets("2CZ", 'I')
	want("c")

	c.sends(FrontendBind, nothing)
	parse("a")
	c.sends(FrontendExecute, deallocateAll) // fails
	drop("c")
	parse("d")
	c.sends(FrontendSync, nothing)
	drop("c") // behind the Sync
	c.sends(FrontendSync, nothing)
	c.gets("2EZZ", 'I')
	want("a")

	c.sends(FrontendExecute, nothing) // fails; no Sync yet
	drop("a")
	c.gets("E", 0)
	want("a")
	c.sends(FrontendSync, nothing)
	c.gets("Z", 'I')
	c.sends(FrontendQuery, deallocateAll) // fails
	drop("a")
	c.gets("E", 0)
	if !c.has["a"] {
		t.Error("a Close has taken effect before the Query before it was answered")
	}
	c.gets("Z", 'I')
	want("")
}
