package engine

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"pgkinetic/engine/reactor"
)

// documented reads the edges that the comment above the package clause's imports of a file lists, one state a line:
//
//	state -> state | state
func documented(t *testing.T, file string) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	edges := map[string]string{}
	for _, g := range f.Comments {
		for line := range strings.Lines(text(g)) {
			from, to, found := strings.Cut(line, "->")
			if !found || len(strings.Fields(from)) != 1 {
				continue
			}
			to, _, _ = strings.Cut(strings.TrimSpace(to), "  ") // behind two blanks: why
			edges[strings.TrimSpace(from)] = to
		}
	}
	return edges
}

func text(g *ast.CommentGroup) string {
	var b strings.Builder
	for _, c := range g.List {
		b.WriteString(strings.TrimPrefix(c.Text, "//"))
		b.WriteByte('\n')
	}
	return b.String()
}

// list is what the table says, in the form of the comment.
func list(names []string, targets uint16) string {
	var to []string
	for i, name := range names {
		if targets&(1<<i) != 0 {
			to = append(to, name)
		}
	}
	return strings.Join(to, " | ")
}

func TestDocumentedEdges(t *testing.T) {
	for _, c := range []struct {
		file  string
		names []string
		edges []uint16
	}{
		{"client.go", clientStateNames[:], clientEdges[:]},
		{"server.go", serverStateNames[:], serverEdges[:]},
	} {
		doc := documented(t, c.file)
		for i, from := range c.names {
			if want := list(c.names, c.edges[i]); doc[from] != want {
				t.Errorf("%s: the comment says %q -> %q, the table %q", c.file, from, doc[from], want)
			}
			delete(doc, from)
		}
		for from := range doc {
			t.Errorf("%s: the comment lists %q, which is no state", c.file, from)
		}
	}
}

// panics tells whether f ends in a panic that names a bug.
func panics(f func()) (bug bool) {
	defer func() {
		text, _ := recover().(string)
		bug = strings.HasPrefix(text, "BUG: ")
	}()
	f()
	return false
}

// TestIllegalEdges: every edge that the tables do not list panics; the listed ones change the state.
func TestIllegalEdges(t *testing.T) {
	loop, err := reactor.NewLoop(0, reactor.LoopOptions{})
	if err != nil {
		t.Fatal(err)
	}
	loop.Stop()
	defer func() { _ = loop.Run() }()
	w := &worker{loop: loop}
	for from := range clientStates {
		for to := range clientStates {
			c := &client{w: w, state: from}
			legal := clientEdges[from]&(1<<to) != 0
			if bug := panics(func() { c.setState(to) }); bug == legal {
				t.Errorf("client %v -> %v: legal %v, panic %v", from, to, legal, bug)
			}
			if legal && c.state != to {
				t.Errorf("client %v -> %v gave %v", from, to, c.state)
			}
		}
	}
	for from := range serverStates {
		for to := range serverStates {
			s := &server{w: w, state: from}
			legal := serverEdges[from]&(1<<to) != 0
			if bug := panics(func() { s.setState(to) }); bug == legal {
				t.Errorf("server %v -> %v: legal %v, panic %v", from, to, legal, bug)
			}
			if legal && s.state != to {
				t.Errorf("server %v -> %v gave %v", from, to, s.state)
			}
		}
	}
}

// TestStatesComeToAnEnd: from every state the last one can be reached, and it is the only one without a way on.
func TestStatesComeToAnEnd(t *testing.T) {
	for name, edges := range map[string][]uint16{"client": clientEdges[:], "server": serverEdges[:]} {
		end := len(edges) - 1
		ends := uint16(1) << end
		for range edges {
			for from, to := range edges {
				if to&ends != 0 {
					ends |= 1 << from
				}
			}
		}
		if ends != 1<<len(edges)-1 {
			t.Errorf("%s: states that never end: %b", name, ^ends&(1<<len(edges)-1))
		}
		for from, to := range edges {
			if (to == 0) != (from == end) {
				t.Errorf("%s: state %d has the ways on %b", name, from, to)
			}
		}
	}
}
