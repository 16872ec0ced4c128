package protocol

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// grammarTable is edges as the table of docs/answers-owed.md: one row for each
// kind and phase.
func grammarTable() string {
	kindNames := [kinds]string{
		kindParse: "Parse", kindBind: "Bind", kindDescribe: "Describe", kindExecute: "Execute", kindClose: "Close",
		kindSync: "Sync", kindQuery: "Query", kindFunctionCall: "FunctionCall",
	}
	phaseNames := [...]string{
		phaseStart: "start", phaseDescribed: "parameters described", phaseRows: "rows", phaseCopyOut: "copy out",
		phaseCopyOutEnd: "copy out ended", phaseCopyIn: "copy in", phaseAnswered: "answered", phaseFailed: "failed",
		phaseDone: "done", phaseSkip: "skip",
	}
	messageNames := map[byte]string{
		BackendParseComplete: "ParseComplete", BackendBindComplete: "BindComplete", BackendCloseComplete: "CloseComplete",
		BackendParameterDescription: "ParameterDescription", BackendRowDescription: "RowDescription", BackendNoData: "NoData",
		BackendDataRow: "DataRow", BackendCommandComplete: "CommandComplete", BackendEmptyQuery: "EmptyQueryResponse",
		BackendPortalSuspended: "PortalSuspended", BackendErrorResponse: "ErrorResponse", BackendReadyForQuery: "ReadyForQuery",
		BackendCopyInResponse: "CopyInResponse", BackendCopyOutResponse: "CopyOutResponse", BackendCopyData: "CopyData",
		BackendCopyDone: "CopyDone", BackendFunctionCallResponse: "FunctionCallResponse",
	}
	var out strings.Builder
	out.WriteString("| head | phase | message → next phase |\n|---|---|---|\n")
	for i := 0; i < len(edges); {
		row := edges[i]
		var to []string
		for ; i < len(edges) && edges[i].kind == row.kind && edges[i].from == row.from; i++ {
			to = append(to, messageNames[edges[i].typ]+" → "+phaseNames[edges[i].to])
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", kindNames[row.kind], phaseNames[row.from], strings.Join(to, " · "))
	}
	return out.String()
}

// TestDocumentedGrammar: the table in the documentation is the one in the code.
func TestDocumentedGrammar(t *testing.T) {
	documented(t, "grammar", grammarTable())
}

// documented fails unless the table of that name in docs/answers-owed.md is want.
func documented(t *testing.T, table, want string) {
	t.Helper()
	const name = "../docs/answers-owed.md"
	begin, end := "<!-- "+table+" -->\n", "<!-- /"+table+" -->"
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("no place for the table")
	}
	if got == want {
		return
	}
	if !*update {
		t.Fatalf("%s differs from the code; go test -run %s -update", name, t.Name())
	}
	if err := os.WriteFile(name, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}
