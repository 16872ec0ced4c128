package protocol

// SQLSTATEs that pg-kinetic writes or looks for (PostgreSQL documentation,
// appendix "PostgreSQL Error Codes").
const (
	CodeConnectionFailure          = "08006"
	CodeProtocolViolation          = "08P01"
	CodeFeatureNotSupported        = "0A000"
	CodeInvalidParameterValue      = "22023"
	CodeIdleInTransactionTimeout   = "25P03"
	CodeTransactionTimeout         = "25P04"
	CodeInvalidSQLStatementName    = "26000"
	CodeInvalidAuthorization       = "28000"
	CodeInvalidPassword            = "28P01"
	CodeInvalidCatalogName         = "3D000"
	CodeSerializationFailure       = "40001"
	CodeInsufficientPrivilege      = "42501"
	CodeDuplicatePreparedStatement = "42P05"
	CodeUndefinedObject            = "42704"
	CodeTooManyConnections         = "53300"
	CodeConfigurationLimitExceeded = "53400"
	CodeProgramLimitExceeded       = "54000"
	CodeCantChangeRuntimeParam     = "55P02"
	CodeQueryCanceled              = "57014"
	CodeAdminShutdown              = "57P01"
	CodeCrashShutdown              = "57P02"
	CodeReadOnlyTransaction        = "25006" // read_only_sql_transaction
	CodeCannotConnectNow           = "57P03"
	CodeIdleSessionTimeout         = "57P05"
	CodeInternalError              = "XX000"
)
