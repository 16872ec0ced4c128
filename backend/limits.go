package backend

// Bounds of one login and of one backend's parameters. A server is not trusted
// to be PostgreSQL: nothing it sends makes us hold more than these numbers.
const (
	// maxAuthBody bounds an Authentication message, NegotiateProtocolVersion,
	// BackendKeyData and ReadyForQuery. libpq uses 2000 for the first two.
	maxAuthBody = 2000
	// maxReportBody bounds ErrorResponse, NoticeResponse and ParameterStatus.
	// libpq accepts messages of these kinds up to 30000 bytes.
	maxReportBody = 30000

	// maxIterations bounds the PBKDF2 iterations a server may ask for: a few
	// seconds of CPU. PostgreSQL's default is 4096.
	maxIterations = 10_000_000
	// maxServerNonce bounds the combined nonce; PostgreSQL's has 48 bytes.
	maxServerNonce = 512
	// maxDerivedKeys is how many (salt, iterations) pairs the keys of one password are kept for.
	maxDerivedKeys = 4

	// Keys of CancelRequest have 4 bytes in protocol 3.0 and up to 256 in 3.2.
	minKeyLen = 4
	maxKeyLen = 256

	// maxParams and maxParamBytes bound the reported parameters of one backend:
	// PostgreSQL 18 reports 15, with a few hundred bytes.
	maxParams     = 64
	maxParamBytes = 64 << 10
)

// LoginLimit returns the largest body, in bytes without type and length, that
// a message of type typ may have during a login; -1 for types that do not
// occur there. A reader tests the header with it before it holds any byte of
// the body.
func LoginLimit(typ byte) int {
	switch typ {
	case 'R', 'v', 'K', 'Z':
		return maxAuthBody
	case 'E', 'N', 'S':
		return maxReportBody
	}
	return -1
}
