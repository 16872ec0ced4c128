package sqllex

// Classes of bytes.
const (
	charOther   uint8 = iota // operators and what else stands for itself
	charMark                 // ( ) ; . which may matter
	charSpace                // white space, and the zero byte that ends a text
	charNewline              // what ends a line comment
	charLetter               // what begins a word
	charDigit
	charQuote  // '
	charDash   // -
	charSlash  // /
	charDouble // "
	charDollar // $
	charClasses
)

var charClass = func() (t [256]uint8) {
	for c := range 256 {
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z' && c < 0x80, c == '_', c >= 0x80:
			t[c] = charLetter
		case c >= '0' && c <= '9':
			t[c] = charDigit
		}
	}
	for _, c := range "\x00 \t\f\v" {
		t[c] = charSpace
	}
	for _, c := range "();." {
		t[c] = charMark
	}
	t['\n'], t['\r'] = charNewline, charNewline
	t['\''], t['-'], t['/'], t['"'], t['$'] = charQuote, charDash, charSlash, charDouble, charDollar
	return t
}()

// identifierPart: what a word goes on with.
var identifierPart = func() (t [256]bool) {
	for c := range 256 {
		t[c] = charClass[c] == charLetter || charClass[c] == charDigit || c == '$'
	}
	return t
}()

// opened is the state that a byte of a class leads to on its own.
var opened = [charClasses]state{
	charSlash:  stateSlash,
	charDouble: stateQuoted,
	charDollar: stateDollar,
}
