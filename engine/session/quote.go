package session

// How a value is written into SQL. The text must mean the same under every
// client_encoding, standard_conforming_strings, backslash_quote and search_path
// of the backend it is sent to, whoever set them. So it is pure ASCII: an E''
// literal with doubled quotes and backslashes, every other byte as \xNN, which
// PostgreSQL takes as a byte in the database's encoding (the startup packet's
// values are not converted either). Functions carry their schema.

// appendLiteral appends value as a string literal. value holds no NUL.
func appendLiteral(dst []byte, value string) []byte {
	dst = append(dst, 'E', '\'')
	for i := range len(value) {
		c := value[i]
		switch {
		case c == '\'' || c == '\\':
			dst = append(dst, c, c)
		case ' ' <= c && c < 0x7f:
			dst = append(dst, c)
		default:
			dst = append(dst, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return append(dst, '\'')
}

// appendIdentifier appends a parameter's name, each part between dots quoted.
// Only for names that plainName accepts.
func appendIdentifier(dst []byte, name string) []byte {
	dst = append(dst, '"')
	for i := range len(name) {
		if name[i] == '.' {
			dst = append(dst, `"."`...)
			continue
		}
		dst = append(dst, name[i])
	}
	return append(dst, '"')
}

// plainName says whether SET and RESET can name the parameter: letters, digits,
// _ and $, in parts of 1 to 63 bytes (longer ones would be cut).
func plainName(name string) bool {
	part := 0
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.':
			if part == 0 {
				return false
			}
			part = 0
			continue
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '$':
			part++
		default:
			return false
		}
		if part > MaxName {
			return false
		}
	}
	return part > 0
}

// quotedList names PostgreSQL's parameters whose value is a list of quoted
// identifiers: SET would take a string as one element, set_config takes the
// list as SHOW gives it. Extensions cannot define such parameters.
func quotedList(name string) bool {
	switch name {
	case "search_path", "temp_tablespaces", "session_preload_libraries",
		"local_preload_libraries", "shared_preload_libraries", "unix_socket_directories":
		return true
	}
	return false
}

// appendSet appends the statement that gives a parameter its value. SET costs
// PostgreSQL less than set_config: no snapshot, no plan, no row.
func appendSet(dst []byte, name, value string) []byte {
	if quotedList(name) || !plainName(name) {
		return append(appendSetConfig(append(dst, "SELECT "...), name, value, false), ';')
	}
	dst = append(dst, "SET "...)
	dst = appendIdentifier(dst, name)
	dst = append(dst, '=')
	dst = appendLiteral(dst, value)
	return append(dst, ';')
}

// appendReset appends the statement that gives a parameter its default.
func appendReset(dst []byte, name string) []byte {
	if !plainName(name) {
		dst = append(dst, "SELECT pg_catalog.set_config("...)
		dst = appendLiteral(dst, name)
		return append(dst, ",NULL,false);"...)
	}
	dst = append(dst, "RESET "...)
	dst = appendIdentifier(dst, name)
	return append(dst, ';')
}

// appendSetConfig appends a call of set_config, for the session or, if local,
// for the transaction.
func appendSetConfig(dst []byte, name, value string, local bool) []byte {
	dst = append(dst, "pg_catalog.set_config("...)
	dst = appendLiteral(dst, name)
	dst = append(dst, ',')
	dst = appendLiteral(dst, value)
	if local {
		return append(dst, ",true)"...)
	}
	return append(dst, ",false)"...)
}

// appendSetList appends the statement that gives a parameter the value of a list
// as SET takes it (sqllex.Op.AppendValue).
func appendSetList(dst []byte, name, list string) []byte {
	dst = append(dst, "SET "...)
	dst = appendIdentifier(dst, name)
	dst = append(dst, '=')
	dst = append(dst, list...)
	return append(dst, ';')
}
