package configs

import (
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
)

// What one value alone cannot tell: rules between settings, and passwords that stand elsewhere.

// relate tells the problems between settings of the merged layers and resolves passwords.
func (l *loader) relate(c *Config) {
	if len(c.Server.Listen) == 0 && c.Server.UnixSocketDir == "" {
		l.problem("server.listen", "is empty and server.unix_socket_dir is not set: nothing to listen on")
	}
	for i := range c.Databases {
		db, path := &c.Databases[i], entryAt(sectionDatabases, i)
		if len(db.Hosts) == 0 {
			l.problem(path+".hosts", "is empty: name at least one host")
		}
		for n, h := range db.Hosts {
			if slices.Contains(db.Hosts[:n], h) {
				l.problem(path+".hosts", fmt.Sprintf("names %s twice", show(h.String())))
				break
			}
		}
		l.password(db, path)
	}
	l.admin(c)
	l.replacement(&c.Admission)
	l.security(c)
	for i := range c.Routes {
		if r := &c.Routes[i]; r.Name == "" && len(r.SplitBy) > 0 {
			l.problem(entryAt(sectionRoutes, i)+".split_by", "keeps apart what a name puts together: give the rule a name; without one its requests are told apart by admission.route_key")
		}
	}
}

// admin tells names and addresses that would belong to two.
func (l *loader) admin(c *Config) {
	for i := range c.Databases {
		name, path := c.Databases[i].Name, entryAt(sectionDatabases, i)+".name"
		switch name {
		case c.Admin.Database:
			l.problem(path, fmt.Sprintf("is %s, by which clients reach the console: choose another name for the one or for the other (admin.database)", show(name)))
		case ConsoleAlias:
			l.problem(path, fmt.Sprintf("is %s, by which clients reach the console too: choose another name; dbname may be %s", show(name), show(name)))
		}
	}
	if _, port, err := net.SplitHostPort(c.Admin.Listen); err == nil && port != "0" && slices.Contains(c.Server.Listen, c.Admin.Listen) {
		l.problem("admin.listen", "is an address of server.listen too: choose another port")
	}
}

// replacement judges what stands for a match of the pattern of application names.
func (l *loader) replacement(a *Admission) {
	const key = "admission.application_name_replace"
	if a.ApplicationNameReplace == "" {
		return
	}
	if a.ApplicationNamePattern == "" {
		l.problem(key, "replaces nothing: admission.application_name_pattern is not set")
		return
	}
	pattern, err := regexp.Compile(a.ApplicationNamePattern)
	if err != nil {
		return // told by the pattern's own row
	}
	if err := checkReplacement(pattern, a.ApplicationNameReplace); err != nil {
		l.problem(key, err.Error())
	}
}

func (l *loader) problem(path, message string) {
	l.problems = append(l.problems, Problem{l.origins.Of(path), path + " " + message})
}

// password makes sure that there is one source of a database's password, and reads it into Password.
func (l *loader) password(db *Database, path string) {
	sources := map[string]string{"password": db.Password.Reveal(), "password_env": db.PasswordEnv, "password_file": db.PasswordFile}
	used := ""
	for _, key := range []string{"password", "password_env", "password_file"} {
		if sources[key] == "" {
			continue
		}
		if used != "" {
			l.problem(path+"."+key, "stands beside "+used+": keep one of password, password_env and password_file")
			return
		}
		used = key
	}
	var secret string
	var err error
	switch used {
	case "password_env":
		secret, err = l.passwordVariable(db.PasswordEnv)
	case "password_file":
		secret, err = passwordFile(db.PasswordFile)
	default:
		return
	}
	if err != nil {
		l.problem(path+"."+used, err.Error())
		return
	}
	db.Password = Secret(secret)
}

// ReadPassword reads the entry's password_file, whose content may have changed since the settings were loaded.
func (d *Database) ReadPassword() (string, error) {
	secret, err := passwordFile(d.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("password_file %w", err)
	}
	return secret, nil
}

func (l *loader) passwordVariable(name string) (string, error) {
	secret, ok := l.environ[name]
	if !ok {
		return "", fmt.Errorf("names the variable %s, which is not set", name)
	}
	if err := checkPassword(secret); err != nil {
		return "", fmt.Errorf("names the variable %s, whose value %w", name, err)
	}
	return secret, nil
}

func passwordFile(path string) (string, error) {
	data, err := readFile(path, 64<<10)
	if err != nil {
		return "", fmt.Errorf("names %q, which cannot be read: %w", path, err)
	}
	secret := strings.TrimRight(string(data), "\r\n")
	if err := checkPassword(secret); err != nil {
		return "", fmt.Errorf("names %q, whose content %w", path, err)
	}
	return secret, nil
}

func checkPassword(secret string) error {
	switch {
	case secret == "":
		return errors.New("is empty")
	case len(secret) > maxPassword:
		return fmt.Errorf("has %d bytes; at most %d", len(secret), maxPassword)
	case strings.ContainsRune(secret, 0):
		return errors.New("has a NUL byte")
	}
	return nil
}
