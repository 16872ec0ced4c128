package protocol

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the results in testdata/tracker")

// A dialogue is a text file. Each line is an event, and behind " -- " what the
// tracker says to it:
//
//	> X    the client's message X is offered, X! as one that may be COPY
//	% X    the client's message X is to be answered here
//	^      a Parse of ours is prepared for the client's next message
//	~ X    message X is injected
//	< X a  message X is received; a is a status or a SQLSTATE
//	* orphan, * recover, * reset
//	=      what the accessors say
//
// Other lines are comments.

// visits counts the edges of the grammar.
type visits map[[3]byte]int

func runDialogue(t *Tracker, line string, seen visits) string {
	f := strings.Fields(line)
	switch f[0] {
	case ">":
		return verdictText(t.Offer(f[1][0], strings.HasSuffix(f[1], "!")))
	case "%":
		return verdictText(t.Local(f[1][0]))
	case "^":
		return verdictText(t.Prepare())
	case "~":
		return verdictText(t.Inject(f[1][0]))
	case "<":
		arg := ""
		if len(f) > 2 {
			arg = f[2]
		}
		return receiveText(t, f[1][0], arg, seen)
	case "*":
		switch f[1] {
		case "orphan":
			t.Orphan()
		case "reset":
			t.Reset()
		case "recover":
			return messageTypes(t.Recover(nil))
		}
		return ""
	}
	return stateText(t)
}

func verdictText(v Verdict) string {
	return [...]string{"forward", "forward, flush", "hold", "drop", "full", "answer now", "answer later"}[v]
}

func receiveText(t *Tracker, typ byte, arg string, seen visits) string {
	if t.Owed() > 0 {
		if k, p := t.queue.head().kind, t.phase; grammar[k][p][typ] != phaseNone {
			seen[[3]byte{byte(k), byte(p), typ}]++
		}
	}
	status := byte(0)
	if typ == BackendReadyForQuery {
		status = arg[0]
	}
	before := t.Done()
	a, err := t.Receive(typ, status, []byte(arg))
	if err != nil {
		return "error: " + strings.TrimPrefix(err.Error(), "protocol: ")
	}
	var w []string
	if a.Swallow {
		w = append(w, "swallow")
	}
	if a.Ready {
		w = append(w, "ready "+string(a.Status))
	}
	if a.InjectedError {
		w = append(w, "injected error")
	}
	if a.Syncs > 0 {
		w = append(w, fmt.Sprintf("syncs %d", a.Syncs))
	}
	var outcomes [3]int
	for n := before + 1; n <= t.Done(); n++ {
		outcomes[t.Outcome(n)]++
	}
	if outcomes[Failed] > 0 {
		w = append(w, "failed")
	}
	if outcomes[Removed] > 0 {
		w = append(w, fmt.Sprintf("removes %d", outcomes[Removed]))
	}
	if a.Local > 0 {
		w = append(w, fmt.Sprintf("local %d", a.Local))
	}
	if a.Resume {
		w = append(w, "resume")
	}
	return strings.Join(w, ", ")
}

func messageTypes(p []byte) string {
	var types []string
	for len(p) > 0 {
		typ, size, err := PeekFrontend(p)
		if err != nil {
			return err.Error()
		}
		types = append(types, string(typ))
		p = p[size:]
	}
	return strings.Join(types, " ")
}

func stateText(t *Tracker) string {
	w := []string{fmt.Sprintf("status %c, owed %d, ready owed %d", t.Status(), t.Owed(), t.ReadyOwed())}
	for _, s := range []struct {
		is   bool
		name string
	}{
		{t.Idle(), "idle"},
		{t.Busy(), "busy"},
		{t.ClientOwes(), "client owes"},
		{t.InCopyIn(), "copy in"},
		{t.FlushAnswered(), "flush answered"},
		{t.SyncOwed(), "sync owed"},
		{t.AtBoundary(), "boundary"},
		{t.Doomed(), "doomed"},
		{!t.Resume(), "waits"},
	} {
		if s.is {
			w = append(w, s.name)
		}
	}
	return strings.Join(w, ", ")
}

// runDialogues runs all files and returns what was visited.
func runDialogues(t *testing.T) visits {
	t.Helper()
	files, err := filepath.Glob("testdata/tracker/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	seen := visits{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var tracker Tracker
		tracker.Reset()
		var out []string
		for _, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
			if line != "" && strings.ContainsRune("><%^~*=", rune(line[0])) {
				event, _, _ := strings.Cut(line, " --")
				event = strings.TrimSpace(event)
				line = event
				if r := runDialogue(&tracker, event, seen); r != "" {
					line += " -- " + r
				}
			}
			out = append(out, line)
		}
		got := strings.Join(out, "\n") + "\n"
		switch {
		case got == string(text):
		case *update:
			if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		default:
			t.Errorf("%s: the tracker says\n%s", name, got)
		}
	}
	return seen
}

func TestDialogues(t *testing.T) { runDialogues(t) }

// TestEveryEdgeIsVisited: no edge of the grammar is there that no dialogue uses.
func TestEveryEdgeIsVisited(t *testing.T) {
	seen := runDialogues(t)
	for _, e := range edges {
		if seen[[3]byte{byte(e.kind), byte(e.from), e.typ}] == 0 {
			t.Errorf("no dialogue visits kind %d, phase %d, message %c", e.kind, e.from, e.typ)
		}
	}
}

// TestNothingElseIsAccepted: a message that is no edge is an error in every
// kind and phase, and what is not in the grammar is accepted in all of them.
func TestNothingElseIsAccepted(t *testing.T) {
	legal := visits{}
	for _, e := range edges {
		legal[[3]byte{byte(e.kind), byte(e.from), e.typ}]++
	}
	for k := kindParse; k < kinds; k++ {
		for p := phaseStart; p < phases; p++ {
			for typ := range 256 {
				var tr Tracker
				tr.Reset()
				tr.send(k, flagMarked)
				tr.phase = p
				if p == phaseCopyIn {
					tr.gate = gateEnded
				} else {
					tr.gate = gateMarked
				}
				_, err := tr.Receive(byte(typ), StatusIdle, nil)
				anywhere := byte(typ) == BackendNoticeResponse || byte(typ) == BackendParameterStatus ||
					byte(typ) == BackendNotificationResponse
				if want := anywhere || legal[[3]byte{byte(k), byte(p), byte(typ)}] > 0; want != (err == nil) {
					t.Errorf("kind %d, phase %d, message %q: %v", k, p, rune(typ), err)
				}
			}
		}
	}
}

// TestEveryOffer: what is answered to each message in each state of the gate.
func TestEveryOffer(t *testing.T) {
	const types = "QPBDECSHFdcf"
	states := []struct {
		name  string
		reach string
		want  string // one letter for each type: Forward, fLush, Hold, Drop
	}{
		{"idle", "", "FFFFFFFFFDDD"},
		{"open group", "> P|> B", "FFFFFFFFFDDD"},
		{"skip", "> P|< E 42601", "DDDDDDFDDDDD"},
		{"marked query", "> Q!", "HHHHHHHHHHHH"},
		{"marked execute", "> E!", "HHHHHHHHHHHH"},
		{"query copies", "> Q!|< G", "FFFFFFDDFFFF"},
		{"execute copies", "> E!|< G", "FFFFFFDDFFLF"},
		{"data ended", "> Q!|< G|> c", "HHHHHHHHHHHH"},
		{"between two copies", "> Q!|< G|> c|< C", "HHHHHHHHHHHH"},
		{"copy failed by another message", "> Q!|< G|> P", "HHHHHHHHHHHH"},
		{"copy failed", "> Q!|< G|< E 22P02", "FFFFFFFFFDDD"},
		{"copy failed in a group", "> E!|< G|< E 22P02", "DDDDDDFDDDDD"},
	}
	for _, s := range states {
		got := ""
		for _, typ := range types {
			var tr Tracker
			tr.Reset()
			for _, event := range strings.Split(s.reach, "|") {
				if event != "" {
					runDialogue(&tr, event, visits{})
				}
			}
			got += string("FLHDU"[tr.Offer(byte(typ), false)])
		}
		if got != s.want {
			t.Errorf("%s: %s are answered %s, want %s", s.name, types, got, s.want)
		}
	}
}
