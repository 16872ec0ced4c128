package protocol

// Message types that a client sends after its start-up packet.
const (
	FrontendQuery        byte = 'Q'
	FrontendParse        byte = 'P'
	FrontendBind         byte = 'B'
	FrontendDescribe     byte = 'D'
	FrontendExecute      byte = 'E'
	FrontendClose        byte = 'C'
	FrontendSync         byte = 'S'
	FrontendFlush        byte = 'H'
	FrontendFunctionCall byte = 'F'
	FrontendTerminate    byte = 'X'
	FrontendCopyData     byte = 'd'
	FrontendCopyDone     byte = 'c'
	FrontendCopyFail     byte = 'f'
	// FrontendPassword also carries SASLInitialResponse, SASLResponse and
	// GSSResponse. It is legal during authentication only.
	FrontendPassword byte = 'p'
)

// Message types that a server sends.
const (
	BackendAuthentication           byte = 'R'
	BackendKeyData                  byte = 'K'
	BackendParseComplete            byte = '1'
	BackendBindComplete             byte = '2'
	BackendCloseComplete            byte = '3'
	BackendParameterDescription     byte = 't'
	BackendRowDescription           byte = 'T'
	BackendNoData                   byte = 'n'
	BackendDataRow                  byte = 'D'
	BackendCommandComplete          byte = 'C'
	BackendEmptyQuery               byte = 'I'
	BackendPortalSuspended          byte = 's'
	BackendErrorResponse            byte = 'E'
	BackendNoticeResponse           byte = 'N'
	BackendNotificationResponse     byte = 'A'
	BackendParameterStatus          byte = 'S'
	BackendReadyForQuery            byte = 'Z'
	BackendCopyInResponse           byte = 'G'
	BackendCopyOutResponse          byte = 'H'
	BackendCopyBothResponse         byte = 'W'
	BackendCopyData                 byte = 'd'
	BackendCopyDone                 byte = 'c'
	BackendFunctionCallResponse     byte = 'V'
	BackendNegotiateProtocolVersion byte = 'v'
)

// Transaction status, the body of ReadyForQuery.
const (
	StatusIdle   byte = 'I' // outside a transaction block
	StatusBlock  byte = 'T' // in a transaction block
	StatusFailed byte = 'E' // in a failed transaction block
)

// Targets of Describe and Close.
const (
	TargetStatement byte = 'S'
	TargetPortal    byte = 'P'
)

// Sizes, in bytes. Lengths count as on the wire: the length field itself is
// included, the type byte is not, unless said otherwise.
const (
	// HeaderLen is the type byte and the length field.
	HeaderLen = 5
	// SmallMessage is the whole size, type byte included, up to which a message
	// is forwarded only when it is complete: a client that vanishes cannot leave
	// half of it on a backend.
	SmallMessage = 16 << 10
	// MaxMessage is the largest length that PostgreSQL reads for Query, Parse,
	// Bind, FunctionCall and CopyData (its PQ_LARGE_MESSAGE_LIMIT).
	MaxMessage = 1<<30 - 2
	// MaxSmallMessage is the largest length that it reads for all other
	// messages (its PQ_SMALL_MESSAGE_LIMIT).
	MaxSmallMessage = 10000
	// MaxBackendMessage is the largest length that PostgreSQL can write: a body
	// below 1 GiB (its MaxAllocSize) and the length field.
	MaxBackendMessage = 1<<30 - 1 + 4
	// MaxStartupPacket is the largest body of a start-up packet, the length
	// field not included (PostgreSQL's MAX_STARTUP_PACKET_LENGTH).
	MaxStartupPacket = 10000
	// MinCancelKey and MaxCancelKey bound the secret in BackendKeyData and
	// CancelRequest: 4 bytes in protocol 3.0, up to 256 from 3.2 on.
	MinCancelKey = 4
	MaxCancelKey = 256
)

// Protocol version 3 and the minor versions that PostgreSQL has released.
const (
	Major         uint16 = 3
	MinorOldest   uint16 = 0
	MinorLongKeys uint16 = 2
)
