package protocol

// kind is what an entry of the queue was sent as.
type kind uint8

const (
	kindNone kind = iota // owes no answer
	kindParse
	kindBind
	kindDescribe
	kindExecute
	kindClose
	kindSync
	kindQuery
	kindFunctionCall
	kinds
)

// ready reports whether the answer ends with ReadyForQuery.
func (k kind) ready() bool { return k >= kindSync }

// extended reports whether an error makes the backend skip to the next Sync.
func (k kind) extended() bool { return k >= kindParse && k <= kindClose }

// kindOf maps a client's message type to its entry.
var kindOf = [256]kind{
	FrontendParse:        kindParse,
	FrontendBind:         kindBind,
	FrontendDescribe:     kindDescribe,
	FrontendExecute:      kindExecute,
	FrontendClose:        kindClose,
	FrontendSync:         kindSync,
	FrontendQuery:        kindQuery,
	FrontendFunctionCall: kindFunctionCall,
}

// phase is how far the answer to the head has come.
type phase uint8

const (
	phaseNone       phase = iota // not an edge
	phaseStart                   // nothing received, or a statement of a Query complete
	phaseDescribed               // ParameterDescription received
	phaseRows                    // RowDescription or DataRow received
	phaseCopyOut                 // CopyOutResponse received
	phaseCopyOutEnd              // the server's CopyDone received
	phaseCopyIn                  // CopyInResponse received
	phaseAnswered                // FunctionCallResponse received
	phaseFailed                  // ErrorResponse received, ReadyForQuery follows
	phases
	phaseDone // the entry is answered
	phaseSkip // the entry has failed, and with it all up to the next Sync
)

// edge: in phase from, an entry of that kind may be answered by typ.
type edge struct {
	kind kind
	from phase
	typ  byte
	to   phase
}

// edges is the whole grammar of answers. NoticeResponse, ParameterStatus and
// NotificationResponse may come anywhere and are not in it.
//
// A Query is described less strictly than it could be where rules make
// PostgreSQL send several row sets for one statement. A FunctionCall may fail
// after its response, a Sync without any statement before it: a deferred
// constraint is checked when the implicit transaction commits. An error may be
// followed by another: one raised while the transaction is aborted, or FATAL.
var edges = []edge{
	{kindParse, phaseStart, BackendParseComplete, phaseDone},
	{kindParse, phaseStart, BackendErrorResponse, phaseSkip},

	{kindBind, phaseStart, BackendBindComplete, phaseDone},
	{kindBind, phaseStart, BackendErrorResponse, phaseSkip},

	{kindClose, phaseStart, BackendCloseComplete, phaseDone},
	{kindClose, phaseStart, BackendErrorResponse, phaseSkip},

	{kindDescribe, phaseStart, BackendParameterDescription, phaseDescribed},
	{kindDescribe, phaseStart, BackendRowDescription, phaseDone},
	{kindDescribe, phaseStart, BackendNoData, phaseDone},
	{kindDescribe, phaseStart, BackendErrorResponse, phaseSkip},
	{kindDescribe, phaseDescribed, BackendRowDescription, phaseDone},
	{kindDescribe, phaseDescribed, BackendNoData, phaseDone},
	{kindDescribe, phaseDescribed, BackendErrorResponse, phaseSkip},

	{kindExecute, phaseStart, BackendDataRow, phaseRows},
	{kindExecute, phaseStart, BackendCommandComplete, phaseDone},
	{kindExecute, phaseStart, BackendEmptyQuery, phaseDone},
	{kindExecute, phaseStart, BackendPortalSuspended, phaseDone},
	{kindExecute, phaseStart, BackendCopyOutResponse, phaseCopyOut},
	{kindExecute, phaseStart, BackendCopyInResponse, phaseCopyIn},
	{kindExecute, phaseStart, BackendErrorResponse, phaseSkip},
	{kindExecute, phaseRows, BackendDataRow, phaseRows},
	{kindExecute, phaseRows, BackendCommandComplete, phaseDone},
	{kindExecute, phaseRows, BackendPortalSuspended, phaseDone},
	{kindExecute, phaseRows, BackendErrorResponse, phaseSkip},
	{kindExecute, phaseCopyOut, BackendCopyData, phaseCopyOut},
	{kindExecute, phaseCopyOut, BackendCopyDone, phaseCopyOutEnd},
	{kindExecute, phaseCopyOut, BackendErrorResponse, phaseSkip},
	{kindExecute, phaseCopyOutEnd, BackendCommandComplete, phaseDone},
	{kindExecute, phaseCopyOutEnd, BackendErrorResponse, phaseSkip},
	{kindExecute, phaseCopyIn, BackendCommandComplete, phaseDone},
	{kindExecute, phaseCopyIn, BackendErrorResponse, phaseSkip},

	{kindSync, phaseStart, BackendReadyForQuery, phaseDone},
	{kindSync, phaseStart, BackendErrorResponse, phaseFailed},
	{kindSync, phaseFailed, BackendReadyForQuery, phaseDone},
	{kindSync, phaseFailed, BackendErrorResponse, phaseFailed},

	{kindFunctionCall, phaseStart, BackendFunctionCallResponse, phaseAnswered},
	{kindFunctionCall, phaseStart, BackendErrorResponse, phaseFailed},
	{kindFunctionCall, phaseAnswered, BackendReadyForQuery, phaseDone},
	{kindFunctionCall, phaseAnswered, BackendErrorResponse, phaseFailed},
	{kindFunctionCall, phaseFailed, BackendReadyForQuery, phaseDone},
	{kindFunctionCall, phaseFailed, BackendErrorResponse, phaseFailed},

	{kindQuery, phaseStart, BackendRowDescription, phaseRows},
	{kindQuery, phaseStart, BackendCommandComplete, phaseStart},
	{kindQuery, phaseStart, BackendEmptyQuery, phaseStart},
	{kindQuery, phaseStart, BackendCopyOutResponse, phaseCopyOut},
	{kindQuery, phaseStart, BackendCopyInResponse, phaseCopyIn},
	{kindQuery, phaseStart, BackendReadyForQuery, phaseDone},
	{kindQuery, phaseStart, BackendErrorResponse, phaseFailed},
	{kindQuery, phaseRows, BackendRowDescription, phaseRows},
	{kindQuery, phaseRows, BackendDataRow, phaseRows},
	{kindQuery, phaseRows, BackendCommandComplete, phaseStart},
	{kindQuery, phaseRows, BackendErrorResponse, phaseFailed},
	{kindQuery, phaseCopyOut, BackendCopyData, phaseCopyOut},
	{kindQuery, phaseCopyOut, BackendCopyDone, phaseCopyOutEnd},
	{kindQuery, phaseCopyOut, BackendErrorResponse, phaseFailed},
	{kindQuery, phaseCopyOutEnd, BackendCommandComplete, phaseStart},
	{kindQuery, phaseCopyOutEnd, BackendErrorResponse, phaseFailed},
	{kindQuery, phaseCopyIn, BackendCommandComplete, phaseStart},
	{kindQuery, phaseCopyIn, BackendErrorResponse, phaseFailed},
	{kindQuery, phaseFailed, BackendReadyForQuery, phaseDone},
	{kindQuery, phaseFailed, BackendErrorResponse, phaseFailed},
}

// grammar is edges as an array: [kind][phase][message type] → next phase.
var grammar = func() (g [kinds][phases][128]phase) {
	for _, e := range edges {
		g[e.kind][e.from][e.typ] = e.to
	}
	return g
}()
