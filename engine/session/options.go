package session

import (
	"strings"

	"pgkinetic/protocol"
)

// SettingError refuses a client's startup setting, in PostgreSQL's words.
type SettingError struct{ Fields protocol.ErrorFields }

func (e *SettingError) Error() string {
	return e.Fields.Message + " (SQLSTATE " + e.Fields.Code + ")"
}

// Answer returns the fields of the ErrorResponse for the client, without
// Severity: at login it is FATAL.
func (e *SettingError) Answer() protocol.ErrorFields {
	f := e.Fields
	f.Severity = ""
	return f
}

const codeSyntaxError = "42601"

func optionError(message, hint string) error {
	return &SettingError{protocol.ErrorFields{Code: codeSyntaxError, Message: message, Hint: hint}}
}

// ParseOptions reads the startup parameter "options": words separated by white
// space, a backslash takes the next byte as it is; each setting is -c
// name=value, -cname=value or --name=value, in whose name a dash means an
// underscore. Anything else is a *SettingError that names it. Repeated names
// are all returned, in order.
func ParseOptions(options string) ([]protocol.Param, error) {
	var params []protocol.Param
	words := splitOptions(options)
	for i := 0; i < len(words); i++ {
		word := words[i]
		setting, prefix := "", "--"
		switch {
		case strings.HasPrefix(word, "--") && len(word) > 2:
			setting = word[2:]
		case word == "-c" && i+1 < len(words):
			i++
			setting, prefix = words[i], "-c "
		case strings.HasPrefix(word, "-c") && len(word) > 2:
			setting, prefix = word[2:], "-c "
		default:
			return nil, optionError(
				"invalid command-line argument for server process: "+word,
				"startup options may be: -c name=value, --name=value",
			)
		}
		name, value, found := strings.Cut(setting, "=")
		if !found || name == "" {
			return nil, optionError(prefix+setting+" requires a value", "")
		}
		params = append(params, protocol.Param{Name: strings.ReplaceAll(name, "-", "_"), Value: value})
	}
	return params, nil
}

func splitOptions(s string) []string {
	var words []string
	var word []byte
	inWord := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == ' ' || '\t' <= c && c <= '\r' {
			if inWord {
				words = append(words, string(word))
			}
			word, inWord = word[:0], false
			continue
		}
		if c == '\\' {
			inWord = true
			if i++; i == len(s) {
				break
			}
			c = s[i]
		}
		word, inWord = append(word, c), true
	}
	if inWord {
		words = append(words, string(word))
	}
	return words
}

// requested collects what a client asked for at startup beyond user and
// database: names in lower case, the settings in "options" first, and of a
// repeated name the last value, as PostgreSQL applies them.
func requested(params []protocol.Param) ([]protocol.Param, error) {
	var all []protocol.Param
	for _, p := range params {
		if p.Name != "options" {
			continue
		}
		fromOptions, err := ParseOptions(p.Value)
		if err != nil {
			return nil, err
		}
		all = append(all, fromOptions...)
	}
	for _, p := range params {
		switch p.Name {
		case "user", "database", "options", "replication":
			continue
		}
		if !strings.HasPrefix(p.Name, "_pq_.") {
			all = append(all, p)
		}
	}
	at := make(map[string]int, len(all))
	unique := all[:0]
	for _, p := range all {
		p.Name = lowerName(p.Name)
		if i, repeated := at[p.Name]; repeated {
			unique[i].Value = p.Value
			continue
		}
		at[p.Name] = len(unique)
		unique = append(unique, p)
	}
	return unique, nil
}

// lowerName folds A to Z only, as PostgreSQL compares names of parameters.
func lowerName(name string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, name)
}
