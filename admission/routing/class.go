package routing

// Class groups requests by what they do. It decides nothing about safety. The first six are the statement lexer's, with
// its numbers; ClassSession is every request of a pool in session mode.
type Class uint8

// The classes.
const (
	ClassDefault     Class = iota // everything that is in no other class; a login
	ClassRead                     // queries that do not write
	ClassWrite                    // INSERT, UPDATE, DELETE, MERGE
	ClassMaintenance              // DDL, VACUUM and their like
	ClassCopy                     // COPY
	ClassTransaction              // transaction control with no other statement behind it
	ClassSession                  // session mode

	// Classes is how many there are.
	Classes = iota
)

var classNames = [Classes]string{"default", "read", "write", "maintenance", "copy", "transaction", "session"}

// String is the name that rules use. It panics for a number that is no class.
func (c Class) String() string { return classNames[c] }

// Set is the set of c alone.
func (c Class) Set() ClassSet { return 1 << c }

// ClassNamed gives the class with a name as rules use it.
func ClassNamed(name string) (Class, bool) {
	for c, n := range classNames {
		if n == name {
			return Class(c), true
		}
	}
	return 0, false
}

// ClassSet is a set of classes, one bit each.
type ClassSet uint8

// AllClasses holds every class.
const AllClasses ClassSet = 1<<Classes - 1

// Has tells whether c is in s.
func (s ClassSet) Has(c Class) bool { return s>>c&1 != 0 }

// Parts is a set of parts of a Key, one bit each.
type Parts uint8

// The parts.
const (
	PartDatabase Parts = 1 << iota
	PartUser
	PartApplication
	PartAddr
	PartClass

	// AllParts holds every part.
	AllParts = 1<<iota - 1
)

var partNames = [...]string{"database", "user", "application_name", "client_addr", "query_class"}

// PartNamed gives the part with a name as admission.route_key and split_by use it: database, user, application_name,
// client_addr, query_class.
func PartNamed(name string) (Parts, bool) {
	for i, n := range partNames {
		if n == name {
			return 1 << i, true
		}
	}
	return 0, false
}
