package engine

// Look-ups of users in PostgreSQL (auth_query), one per entry of databases.
//
// registry.lookups is under its mutex. A Lookup lives until the entry or its query
// is gone; a reload gives it its new settings.

import (
	"slices"
	"time"

	"pgkinetic/backend"
	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/auth/lookup"
	"pgkinetic/engine/dial"
)

// maintenanceDatabase is where users are looked up for the entry that is for all
// databases and names none: initdb makes it for such purposes.
const maintenanceDatabase = "postgres"

// lookupOf gives the look-up for clients that ask for a database, nil for none. Of a
// database that there is not, users are looked up where those of the first entry
// are: that the database is unknown shows neither in the salt of a user nor in the
// time an answer takes, and is told only after the proof.
func (r *registry) lookupOf(database string) *lookup.Lookup {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.eng.settings.Load()
	entry := s.cfg.Database(database)
	if entry == nil {
		if len(s.cfg.Databases) == 0 {
			return nil
		}
		entry = &s.cfg.Databases[0]
	}
	look := r.lookups[entry.Name]
	if look == nil && r.lookups != nil {
		if settings, ok := r.lookupConfig(s, entry); ok {
			look = lookup.New(settings)
			r.lookups[entry.Name] = look
		}
	}
	return look
}

// forgetLookup is called when PostgreSQL has refused a login of the pool's: the
// secret that its user's clients are checked against may be an old one.
func (r *registry) forgetLookup(p *pool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if look := r.lookups[p.key.entry]; look != nil {
		look.Forget(p.key.user)
	}
}

// lookupConfig says how the users of an entry are looked up; ok is false if they
// are not.
func (r *registry) lookupConfig(s *settings, entry *configs.Database) (c lookup.Config, ok bool) {
	cfg, x := s.cfg, s.security
	query, user := cfg.AuthQuery(entry)
	if query == "" {
		return c, false
	}
	database := entry.DBName
	if database == "" {
		database = entry.Name
	}
	if database == configs.AnyDatabase {
		database = maintenanceDatabase
	}
	login := backend.LoginConfig{User: user, Database: database, Credentials: x.credentials(entry, user)}
	var server *dial.Config
	for _, target := range slices.Backward(entry.HostList()) { // whichever answers: to read, any of them does
		d := r.eng.dialing(x, r.host(cfg, target), login)
		d.Next, server = server, &d
	}
	return lookup.Config{
		Server:   *server,
		Query:    query,
		Timeout:  time.Duration(cfg.Effective(entry, nil, nil).ConnectTimeoutMs) * time.Millisecond,
		CacheFor: time.Duration(cfg.Auth.QueryCacheMs) * time.Millisecond,
	}, true
}

// applyLookups tells the look-ups that are there of new settings.
func (r *registry) applyLookups(s *settings) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, look := range r.lookups {
		entry := s.cfg.Database(name)
		if entry != nil && entry.Name == name {
			if c, ok := r.lookupConfig(s, entry); ok {
				look.Reconfigure(c)
				continue
			}
		}
		delete(r.lookups, name)
		go look.Close() // which waits for the queries in progress
	}
}

// closeLookups ends them all, for good.
func (r *registry) closeLookups() {
	r.mu.Lock()
	all := r.lookups
	r.lookups = nil
	r.mu.Unlock()
	for _, look := range all {
		look.Close()
	}
}

// credentials is for the logins of a user of PostgreSQL. A password that lies in a
// file is read anew for each of them.
func (x *security) credentials(entry *configs.Database, user string) *backend.Credentials {
	var source func() (string, error)
	if entry.PasswordFile != "" && x.owns(entry, user) {
		source = entry.ReadPassword
	}
	c := backend.NewCredentials(user, source)
	c.Set(x.stored(entry, user))
	return c
}

// owns tells whether the entry's password is that of user: it is that of the
// entry's user, or of everybody whom the file of users does not know.
func (x *security) owns(entry *configs.Database, user string) bool {
	_, listed := x.rules.Users().Find(user)
	return entry.Password.Reveal() != "" && (entry.User == user || entry.User == "" && !listed)
}

// stored is what the settings tell of a user of PostgreSQL. A nil entry is one
// that is gone.
func (x *security) stored(entry *configs.Database, user string) backend.Stored {
	if entry != nil && x.owns(entry, user) {
		return backend.Stored{Password: entry.Password}
	}
	secret, _ := x.rules.Users().Find(user)
	return storedOf(secret)
}

// storedOf is a secret as a login to PostgreSQL uses it.
func storedOf(s auth.Secret) (stored backend.Stored) {
	switch s.Kind() {
	case auth.PlainSecret:
		stored.Password = configs.Secret(s.Reveal())
	case auth.MD5Secret:
		stored.MD5 = configs.Secret(s.Reveal())
	case auth.SCRAMSecret:
		stored.SCRAM = true
	}
	return stored
}
