package configs

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// The checks of single texts. Each error continues "path …".

func checkNotEmpty(s string) error {
	if strings.TrimSpace(s) == "" {
		return errors.New("must not be empty")
	}
	return nil
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

func checkSocketDir(s string) error {
	if s != "" && !strings.HasPrefix(s, "/") {
		return errors.New("must be an absolute path, beginning with '/'")
	}
	return nil
}

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
