package session

import (
	"strings"

	"pgkinetic/protocol"
)

// encodingAliases maps every name by which PostgreSQL knows an encoding, in
// lower case without punctuation, to its official name (PostgreSQL
// documentation, "Character Set Support", and the further spellings that
// pg_char_to_encoding accepts; a test compares both with a real server).
var encodingAliases = buildAliases(map[string]string{
	"BIG5":           "big5 win950 windows950",
	"EUC_CN":         "euccn",
	"EUC_JIS_2004":   "eucjis2004",
	"EUC_JP":         "eucjp",
	"EUC_KR":         "euckr",
	"EUC_TW":         "euctw",
	"GB18030":        "gb18030",
	"GBK":            "gbk win936 windows936",
	"ISO_8859_5":     "iso88595",
	"ISO_8859_6":     "iso88596",
	"ISO_8859_7":     "iso88597",
	"ISO_8859_8":     "iso88598",
	"JOHAB":          "johab",
	"KOI8R":          "koi8 koi8r",
	"KOI8U":          "koi8u",
	"LATIN1":         "latin1 iso88591",
	"LATIN10":        "latin10 iso885916",
	"LATIN2":         "latin2 iso88592",
	"LATIN3":         "latin3 iso88593",
	"LATIN4":         "latin4 iso88594",
	"LATIN5":         "latin5 iso88599",
	"LATIN6":         "latin6 iso885910",
	"LATIN7":         "latin7 iso885913",
	"LATIN8":         "latin8 iso885914",
	"LATIN9":         "latin9 iso885915",
	"MULE_INTERNAL":  "muleinternal",
	"SHIFT_JIS_2004": "shiftjis2004",
	"SJIS":           "sjis mskanji shiftjis win932 windows932",
	"SQL_ASCII":      "sqlascii",
	"UHC":            "uhc win949 windows949",
	"UTF8":           "utf8 unicode",
	"WIN1250":        "win1250 windows1250",
	"WIN1251":        "win1251 windows1251 win",
	"WIN1252":        "win1252 windows1252",
	"WIN1253":        "win1253 windows1253",
	"WIN1254":        "win1254 windows1254",
	"WIN1255":        "win1255 windows1255",
	"WIN1256":        "win1256 windows1256",
	"WIN1257":        "win1257 windows1257",
	"WIN1258":        "win1258 windows1258 abc tcvn tcvn5712 vscii",
	"WIN866":         "win866 windows866 alt",
	"WIN874":         "win874 windows874",
})

func buildAliases(table map[string]string) map[string]string {
	aliases := make(map[string]string, 2*len(table))
	for official, names := range table {
		for _, alias := range strings.Fields(names) {
			aliases[alias] = official
		}
	}
	return aliases
}

// EncodingName returns PostgreSQL's official name of an encoding; known is
// false when it has none of that name. Letters and digits count, without
// regard to case.
func EncodingName(name string) (official string, known bool) {
	key := make([]byte, 0, MaxName)
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c += 'a' - 'A'
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		default:
			continue
		}
		if len(key) == MaxName {
			return "", false
		}
		key = append(key, c)
	}
	official, known = encodingAliases[string(key)]
	return official, known
}

// judgeEncoding judges a client_encoding for a database whose encoding is
// server (empty: not known). sure is false when only PostgreSQL can tell
// whether it converts between the two.
func judgeEncoding(value, server string) (canonical string, sure bool, err error) {
	official, known := EncodingName(value)
	if !known {
		return "", true, &SettingError{protocol.ErrorFields{
			Code:    protocol.CodeInvalidParameterValue,
			Message: `invalid value for parameter "client_encoding": "` + value + `"`,
		}}
	}
	canonical = official
	if value == "UNICODE" {
		canonical = value // PostgreSQL keeps this one spelling, for old drivers
	}
	switch {
	case official == server, official == "SQL_ASCII", server == "SQL_ASCII":
		sure = true
	case server == "UTF8" || official == "UTF8" && server != "":
		sure = official != "MULE_INTERNAL" && server != "MULE_INTERNAL"
	}
	return canonical, sure, nil
}
