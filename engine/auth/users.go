package auth

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"pgkinetic/configs"
)

const (
	// maxUsersFile bounds a file of users, in bytes: a hundred thousand users with
	// SCRAM secrets.
	maxUsersFile = 16 << 20
	// maxProblems is how many problems of one file are told.
	maxProblems = 20
)

// Users are the users of a file and their secrets: one immutable generation, safe
// for all goroutines. A nil *Users knows nobody.
type Users struct {
	secrets map[string]Secret
	// legacy: most secrets are plain or md5, so under the method md5 most users are
	// asked for an md5 proof.
	legacy bool
}

// LoadUsers reads a file in the format of PgBouncer's auth_file: lines of
// "user" "secret", a quote within written twice, the rest of the line ignored;
// lines that begin with a semicolon are comments. A user whose secret is empty is
// known and has none. Other than in PgBouncer, a user may not occur twice and
// nothing but spaces may stand before and between the two. from is where the
// file's name is written: what belongs to no line is told of there. When there are
// problems (20 are told at most, none with a part of a secret) there are no Users.
// It reads a file, so it is nothing for a loop.
func LoadUsers(files fs.FS, name string, from configs.Place) (*Users, []configs.Problem) {
	text, err := readFile(files, name)
	if err != nil {
		return nil, []configs.Problem{{Place: from, Message: fmt.Sprintf("cannot read the file of users: %v", err)}}
	}
	r := usersReader{users: &Users{secrets: map[string]Secret{}}, seen: map[string]int{}}
	place := configs.Place{Source: configs.SourceFile, Name: name}
	for row := range bytes.Lines(text) {
		place.Line++
		column, err := r.line(string(bytes.TrimRight(row, "\r\n")), place.Line)
		if err == nil {
			continue
		}
		place.Col = column
		r.problems = append(r.problems, configs.Problem{Place: place, Message: err.Error()})
		if len(r.problems) == maxProblems {
			break
		}
	}
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	r.users.legacy = r.older > r.newer
	return r.users, nil
}

func readFile(files fs.FS, name string) ([]byte, error) {
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, maxUsersFile+1))
	if err == nil && len(text) > maxUsersFile {
		err = fmt.Errorf("%s: more than %d bytes", name, maxUsersFile)
	}
	return text, err
}

// usersReader is one reading of a file. seen has the line of each user.
type usersReader struct {
	users        *Users
	seen         map[string]int
	older, newer int // secrets that are plain or md5, and SCRAM secrets
	problems     []configs.Problem
}

// line takes one line in; column is that of the error.
func (r *usersReader) line(text string, number int) (column int, err error) {
	user, secret, column, err := parseUser(text)
	if err != nil || user == "" {
		return column, err
	}
	if first := r.seen[user]; first > 0 {
		return column, fmt.Errorf("user %q is in line %d already", user, first)
	}
	r.users.secrets[user], r.seen[user] = secret, number
	switch secret.Kind() {
	case PlainSecret, MD5Secret:
		r.older++
	case SCRAMSecret:
		r.newer++
	case NoSecret:
	}
	return 0, nil
}

// spaces are what may stand between the fields of a line.
const spaces = " \t\v\f"

// parseUser reads one line; user is empty where it holds none. column counts bytes
// from 1: where the problem is, or the user without one.
func parseUser(line string) (user string, secret Secret, column int, err error) {
	rest := strings.TrimLeft(line, spaces)
	if rest == "" || rest[0] == ';' {
		return "", Secret{}, 0, nil
	}
	column = len(line) - len(rest) + 1
	user, rest, err = quoted(rest, "the user's name")
	if err == nil && user == "" {
		err = errors.New("an empty user name")
	}
	if err != nil {
		return "", Secret{}, column, err
	}
	rest = strings.TrimLeft(rest, spaces)
	text, _, err := quoted(rest, "the user's secret")
	if err == nil {
		secret, err = ParseSecret(text)
	}
	if err != nil {
		column = len(line) - len(rest) + 1
	}
	return user, secret, column, err
}

// quoted takes a text in double quotes from the front of s.
func quoted(s, what string) (text, rest string, err error) {
	if s == "" || s[0] != '"' {
		return "", "", fmt.Errorf("%s must stand in double quotes", what)
	}
	var b strings.Builder
	for s = s[1:]; ; s = s[1:] {
		before, after, found := strings.Cut(s, `"`)
		if !found {
			return "", "", fmt.Errorf("the double quote before %s is not closed in its line", what)
		}
		b.WriteString(before)
		s = after
		if s == "" || s[0] != '"' {
			return b.String(), s, nil
		}
		b.WriteByte('"')
	}
}

// Find returns the secret of user; ok is false when the file does not have it.
func (u *Users) Find(user string) (s Secret, ok bool) {
	if u == nil {
		return Secret{}, false
	}
	s, ok = u.secrets[user]
	return s, ok
}

// mostlyLegacy: see Users.
func (u *Users) mostlyLegacy() bool { return u != nil && u.legacy }
