package auth

// Method is how a client proves who it is; the names are those of pg_hba.conf.
type Method uint8

// The zero Method refuses everybody, so that a forgotten one admits nobody.
const (
	Reject Method = iota
	Trust
	Password
	MD5
	SCRAM
	Cert
)

var methodNames = [...]string{
	Reject: "reject", Trust: "trust", Password: "password", MD5: "md5", SCRAM: "scram-sha-256", Cert: "cert",
}

// String returns the method's name in pg_hba.conf.
func (m Method) String() string { return methodNames[m] }

// ParseMethod returns the method called name; ok is false when there is none.
func ParseMethod(name string) (m Method, ok bool) {
	for i, known := range methodNames {
		if known == name {
			return Method(i), true
		}
	}
	return Reject, false
}

// NeedsSecret tells whether an Exchange by this method compares a proof with a
// stored secret: where not, no secret need be looked up.
func (m Method) NeedsSecret() bool { return m == Password || m == MD5 || m == SCRAM }
