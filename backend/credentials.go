package backend

import (
	"fmt"
	"io"
	"sync"

	"pgkinetic/configs"
	"pgkinetic/protocol/scram"
)

// State of Credentials: what is known of one server user's secret, from where it
// is kept and from clients that logged in as that user.
//
// Owner: a pool; clients' logins write, servers' logins read, from any loop or
// helper. The mutex is held for a few instructions, never while a file is read
// or a key derived.
//
// Invariants: what is learnt is of the same user and database server as the
// login that will use it; derived are keys of derivedOf and of nothing else, at
// most maxDerivedKeys of them, so a server that changes its salt each time costs
// no memory; no method prints anything of it.

// Stored is a user's secret as a configuration, a users file or PostgreSQL's
// catalog keeps it. The zero value is: nothing is known.
type Stored struct {
	// Password is the plain one: it serves every method.
	Password configs.Secret
	// MD5 is "md5" and 32 hexadecimal digits: it serves the method md5 only.
	MD5 configs.Secret
	// SCRAM: there is a SCRAM secret. It checks proofs and makes none: only the
	// keys of a client that has logged in against it do.
	SCRAM bool
}

// Credentials is what is known of one server user. All methods are safe for all
// goroutines; a nil *Credentials knows nothing.
type Credentials struct {
	user   string
	source func() (string, error)

	mu             sync.Mutex
	stored         Stored
	learntPassword string
	learntKeys     *scram.Keys
	derivedOf      string
	derived        []*scram.Keys
}

// NewCredentials is for the user of PostgreSQL of that name. source, unless nil,
// is asked for the password anew by each login that needs one; it may block, for
// it runs where Login.Compute does. It goes before everything else.
func NewCredentials(user string, source func() (string, error)) *Credentials {
	return &Credentials{user: user, source: source}
}

// Set replaces what is stored of the user; what was learnt stays.
func (c *Credentials) Set(s Stored) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stored = s
}

// Learn takes the keys of a client that has logged in by SCRAM as user, in place
// of those of an earlier one. Those of another user than ours are not taken: a
// pool with a user of its own serves clients of many names.
func (c *Credentials) Learn(user string, keys scram.Keys) {
	if c == nil || user != c.user {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learntKeys = &keys
}

// LearnPassword takes the password with which a client has logged in as user, as
// Learn takes keys.
func (c *Credentials) LearnPassword(user, password string) {
	if c == nil || user != c.user {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learntPassword = password
}

// Format prints nothing of the secrets, whatever the verb.
func (c *Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "Credentials{***}") }

// material is what one login may use, or has used.
type material struct {
	password       string // empty: none
	learntPassword bool   // password comes from a client
	md5            string // empty: none
	keys           *scram.Keys
	scram          bool // a SCRAM secret is stored
}

// material asks the source, if there is one: then it may block.
func (c *Credentials) material() (material, error) {
	if c == nil {
		return material{}, nil
	}
	var password string
	if c.source != nil {
		var err error
		if password, err = c.source(); err != nil {
			return material{}, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := material{
		password: password, md5: c.stored.MD5.Reveal(), keys: c.learntKeys, scram: c.stored.SCRAM,
	}
	if m.password == "" {
		m.password = c.stored.Password.Reveal()
	}
	if m.password == "" {
		m.password, m.learntPassword = c.learntPassword, c.learntPassword != ""
	}
	return m, nil
}

// blocks says whether a proof takes a helper: the source is to be asked, or, with
// a SCRAM challenge, keys are to be derived.
func (c *Credentials) blocks(x *exchange) bool {
	if c == nil {
		return false
	}
	if c.source != nil {
		return true
	}
	m, _ := c.material() // without a source there is no error
	return x != nil && m.password != "" && c.derivedKeys(m.password, x) == nil
}

// keysFor returns the keys that answer a SCRAM challenge, nil when nothing known
// gives any. It derives them if need be.
func (c *Credentials) keysFor(m material, x *exchange) (*scram.Keys, error) {
	if m.password == "" {
		if m.keys != nil && x.fits(m.keys) {
			return m.keys, nil
		}
		return nil, nil
	}
	if keys := c.derivedKeys(m.password, x); keys != nil {
		return keys, nil
	}
	keys, err := scram.Derive(m.password, x.salt, x.iterations)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derivedOf != m.password || len(c.derived) == maxDerivedKeys {
		c.derivedOf, c.derived = m.password, nil
	}
	c.derived = append(c.derived, keys)
	return keys, nil
}

// derivedKeys returns the keys that an earlier login has derived.
func (c *Credentials) derivedKeys(password string, x *exchange) *scram.Keys {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.derivedOf != password {
		return nil
	}
	for _, keys := range c.derived {
		if x.fits(keys) {
			return keys
		}
	}
	return nil
}

// forget drops what a client's login has taught us and PostgreSQL has now
// refused: exactly that, for another client may have taught us better meanwhile.
func (c *Credentials) forget(m material) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.learntPassword && c.learntPassword == m.password {
		c.learntPassword = ""
	}
	if m.keys != nil && c.learntKeys == m.keys {
		c.learntKeys = nil
	}
}
