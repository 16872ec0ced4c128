package protocol

import (
	"fmt"
	"strings"
	"testing"
)

// marksAfter runs events on marks that know nothing and returns whether the
// portal "p" may be COPY. Events: P<name>=copy|no, B<portal>=<statement>,
// CS<name>, CP<name>, err, ok (ReadyForQuery), clear.
func marksAfter(events string) bool {
	var m CopyMarks
	for _, e := range strings.Fields(events) {
		left, right, _ := strings.Cut(e, "=")
		switch {
		case e == "err":
			m.Failed()
		case e == "ok":
			m.Settle()
		case e == "clear":
			m.Clear()
		case strings.HasPrefix(e, "P"):
			m.Parse([]byte(left[1:]), right == "copy")
		case strings.HasPrefix(e, "B"):
			m.Bind([]byte(left[1:]), []byte(right))
		default:
			m.Close(e[1], []byte(e[2:]))
		}
	}
	return m.Execute([]byte("p")) // the named one
}

func TestCopyMarks(t *testing.T) {
	f := func(events string, want bool) {
		t.Helper()
		// What holds for the named portal and statement holds for the unnamed.
		if got := marksAfter(events); got != want {
			t.Errorf("%q: %v", events, got)
		}
	}
	// Unknown names are marked.
	f("", true)
	f("Bp=", true)
	f("Bp=s", true)
	f("P=no", true)
	f("P=no Bx=", true)
	// Known ones are what their statement is.
	f("P=no Bp=", false)
	f("P=copy Bp=", true)
	f("Ps=no Bp=s", false)
	f("Ps=copy Bp=s", true)
	f("Ps=copy Pt=no Bp=t", false)
	f("Ps=no Bp=s clear", true)
	// The unnamed statement is replaced, certainly once it is known that it was.
	f("P=copy P=no Bp=", true)
	f("P=copy P=no ok Bp=", false)
	f("P=copy ok P=no Bp=", true)
	f("P=copy ok P=no ok Bp=", false)
	f("P=copy ok P=no err ok Bp=", true)
	f("P=copy ok P=no err ok P=no ok Bp=", false)
	f("P=copy CS ok Bp=", false)
	f("P=copy CS err ok Bp=", true)
	// A named one cannot be replaced without Close.
	f("Ps=copy ok Ps=no ok Bp=s", true)
	f("Ps=no ok Ps=copy err ok Bp=s", true)
	f("Ps=copy ok CSs Ps=no Bp=s", true)
	f("Ps=copy ok CSs Ps=no ok Bp=s", false)
	f("Ps=copy ok CSs Ps=no err ok Bp=s", true)
	f("Ps=copy ok err ok CSs ok Ps=no Bp=s", false)
	f("CSs CPs Ps=no Bp=s", false)
	// Portals likewise; statements and portals are two spaces of names.
	f("Ps=copy Pt=no Bp=s Bp=t", true)
	f("Ps=copy Pt=no Bp=s CPp Bp=t ok", false)
	f("Ps=copy Pt=no Bp=s CPp Bp=t err ok", true)
	f("Pp=copy Pt=no Bp=t", false)
}

func TestCopyMarksUnnamedPortal(t *testing.T) {
	var m CopyMarks
	f := func(what string, want bool) {
		t.Helper()
		if got := m.Execute(nil); got != want {
			t.Errorf("%s: %v", what, got)
		}
	}
	f("unknown", true)
	m.Parse(nil, false)
	m.Bind(nil, nil)
	f("no COPY", false)
	m.Parse([]byte("s"), true)
	m.Bind(nil, []byte("s"))
	f("COPY", true)
	m.Bind(nil, nil)
	f("perhaps replaced", true)
	m.Settle()
	f("replaced", false)
	m.Bind(nil, []byte("s"))
	m.Settle()
	m.Close(TargetPortal, nil)
	f("perhaps closed", true)
	m.Settle()
	f("closed", false)
}

// TestCopyMarksBound: a client with ever new names costs a bounded table, and no
// mark is lost.
func TestCopyMarksBound(t *testing.T) {
	var m CopyMarks
	name := func(i int) []byte { return fmt.Appendf(nil, "statement %d", i) }
	m.Parse([]byte("copy"), true)
	for i := range 10 * maxMarkedNames {
		m.Parse(name(i), false)
		m.Bind(nil, name(i))
		m.Settle()
		if m.Execute(nil) {
			t.Fatalf("statement %d is marked", i)
		}
		if n := len(m.names.slots); n > 2*maxMarkedNames {
			t.Fatalf("%d slots", n)
		}
	}
	m.Bind(nil, []byte("copy"))
	if !m.Execute(nil) {
		t.Error("the mark of a COPY was forgotten")
	}
	for i := range 2 * maxMarkedNames {
		m.Parse(fmt.Appendf(nil, "copy %d", i), true)
	}
	m.Parse([]byte("new"), false)
	m.Bind(nil, []byte("new"))
	if m.names != nil || !m.Execute(nil) {
		t.Error("with too many COPYs not every name is marked")
	}
	m.Clear()
	m.Parse([]byte("new"), false)
	m.Bind(nil, []byte("new"))
	if m.Execute(nil) {
		t.Error("a forgotten client's names are still marked")
	}
}
