package configs

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
)

// The checks of single texts. Each error continues "path …".

func checkNotEmpty(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("must not be empty")
	}
	return nil
}

func checkConsoleName(s string) error {
	if s == AnyDatabase {
		return errors.New("must be one name: `*` stands for every database")
	}
	return checkNotEmpty(s)
}

func checkUserName(s string) error {
	if s == "*" {
		return errors.New(`must be the name of one user: what holds for everybody stands in capacity and server`)
	}
	return checkNotEmpty(s)
}

var envVariable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func checkEnvName(s string) error {
	if s != "" && !envVariable.MatchString(s) {
		return errors.New("must be the name of an environment variable (letters, digits and '_'), not its value")
	}
	return nil
}

func checkAuthQuery(s string) error {
	if s != "" && !strings.Contains(s, "$1") {
		return errors.New("must have $1 where the name of the user stands")
	}
	return nil
}

func checkSocketDir(s string) error {
	if s != "" && !strings.HasPrefix(s, "/") {
		return errors.New("must be an absolute path, beginning with '/'")
	}
	return nil
}

func checkRegexp(s string) error {
	_, err := regexp.Compile(s)
	var bad *syntax.Error
	if errors.As(err, &bad) {
		return fmt.Errorf("is not a regular expression in RE2 syntax: %s", bad.Code)
	}
	return err
}

// checkReplacement judges the groups that a replacement names. One that the pattern does not have would be replaced by
// nothing, which is most often "$1x" where "${1}x" was meant.
func checkReplacement(pattern *regexp.Regexp, s string) error {
	for _, m := range groupReference.FindAllStringSubmatch(s, -1) {
		name := m[1] + m[2] // one of the two; both are empty for $$ and for a dollar sign that begins nothing
		switch number, err := strconv.Atoi(name); {
		case m[0] == "$":
			return errors.New(`has a '$' that begins no group: write $$ for a dollar sign`)
		case m[0] == "$$", err == nil && number <= pattern.NumSubexp() && strconv.Itoa(number) == name,
			pattern.SubexpIndex(name) >= 0:
		default:
			return fmt.Errorf("names the group %q, which admission.application_name_pattern does not have; a group before other letters is written ${1}", cut(name))
		}
	}
	return nil
}

// groupReference matches what regexp.Regexp.Expand takes for a group ($1, $name, ${name}: the longest name), $$, and a $ that is neither.
var groupReference = regexp.MustCompile(`\$(?:\$|([\p{L}\p{Nd}_]+)|\{([\p{L}\p{Nd}_]+)\})?`)

var parameterName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*)*$`)

// checkParameter judges the name of a startup parameter. Those of the login itself have settings of their own.
func checkParameter(name string) error {
	switch strings.ToLower(name) {
	case "user", "database":
		return fmt.Errorf("is part of the login: use %s", map[string]string{"user": "user", "database": "dbname"}[strings.ToLower(name)])
	case "replication":
		return errors.New("would make replication connections, which cannot be pooled")
	}
	if !parameterName.MatchString(name) || len(name) > maxName {
		return errors.New("is not a parameter name")
	}
	return nil
}
