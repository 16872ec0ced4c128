package hba

import (
	"math/rand/v2"
	"strings"
)

// randomText makes lines from words, among them many that do not belong where they
// stand, with blanks, lists, quotes, comments and continuations at random.
type randomText struct{ *rand.Rand }

func (r randomText) one(of ...string) string { return of[r.IntN(len(of))] }

// pick returns one of the words that belong here, now and then one that is odd
// here, or any word.
func (r randomText) pick(good, odd []string) string {
	switch r.IntN(30) {
	case 0:
		return r.one("all", "host", "local", "10.0.0.0/8", "255.0.0.0", "trust", "", "x=y", "\"a b\"", "a\\", "::1", "é")
	case 1, 2:
		return r.one(odd...)
	}
	return r.one(good...)
}

func (r randomText) list(good, odd []string) string {
	list := r.pick(good, odd)
	for r.IntN(4) == 0 {
		list += r.one(",", ", ", ",,", " ,", ",\t") + r.pick(good, odd)
	}
	return list
}

func (r randomText) line(fields ...string) string {
	var line strings.Builder
	line.WriteString(r.one("", "", "", " ", "\t", ","))
	for _, f := range fields[:len(fields)-r.IntN(20)/19] {
		line.WriteString(f + r.one(" ", " ", "\t", "  ", " ", " \t", " \\\n", "\\\n ", "\r "))
	}
	return line.String() + r.one("", "", "# comment", "#", " # \"open", " \\", "\r", "\\\r") + "\n"
}

var (
	randomNames = []string{
		"all", "\"all\"", "sameuser", "replication", "db1", "a", "B", "\"x,y\"", "\"a\"\"b\"", "a\"b c\"d", "@list", "\"@list\"", "@\"list\"", "\"\"", "@",
	}
	randomAddresses = []string{
		"all", "samehost", "samenet", "10.1.2.3/8", "0.0.0.0/0", "127.0.0.1/32", "10.1.2.3/30", "1.2.3.4/0",
		"::1/128", "fe80::1:2/10", "::/0", "::1:2/127", "10.1.2.3 255.255.0.0", "2001:db8::1 ffff:ffff::",
	}
	oddAddresses = []string{
		"1.2.3.4/33", "1.2.3.4/", "1.2.3.4/x", "10.1.2.3 255.0.0.1", "10.1.2.3 ffff::", "10.1.2.3", "1.2.3.4,5.6.7.8", "name", ".suffix", "name/8",
	}
	oddOptions = []string{
		"map=m", "clientcert=verify-ca", "clientcert=1", "clientname=DN", "clientname=x", "unknown=1", "word", "map=m,clientcert=verify-full",
	}
)

func (r randomText) rule() string {
	kind := r.pick([]string{"local", "host", "hostssl", "hostssl", "hostssl", "hostnossl", "hostgssenc", "hostnogssenc", "\"host\""}, []string{"hosts", "local,host"})
	fields := []string{kind, r.list(randomNames, []string{"samerole"}), r.list(randomNames, []string{"+group"})}
	if kind != "local" {
		fields = append(fields, r.pick(randomAddresses, oddAddresses))
	}
	methods := []string{"trust", "reject", "md5", "password", "scram-sha-256", "\"scram-sha-256\""}
	var options []string
	if kind == "hostssl" {
		methods = append(methods, "cert", "cert", "cert")
		options = []string{"clientcert=verify-full", "clientname=CN", "clientname=DN", "\"clientname\"=CN", "clientcert=verify-full,clientname=DN"}
	}
	method := r.pick(methods, []string{"peer", "ident", "nonsense", "cert"})
	switch {
	case method == "cert":
		options = append(options, "map=m", "map=\"a b\"", "\"map=m\"", "map=")
	case kind == "hostssl":
		options = append(options, "clientcert=verify-ca")
	}
	fields = append(fields, method)
	for options != nil && r.IntN(3) == 0 {
		fields = append(fields, r.pick(options, oddOptions))
	}
	return r.line(fields...)
}

func (r randomText) file(n int, line func() string) string {
	var text strings.Builder
	for range n {
		text.WriteString(line())
	}
	return text.String()
}

// mapping is a line of a user name map.
func (r randomText) mapping() string {
	names := []string{"m", "\"m\"", "all", "\"all\"", "a", "a\"b c\"d", "B", "\"x,y\"", "/^(.*)@a$", "\"/x,(y)\"", "\\1", "a\\1b", "", "@one", "é"}
	field := func() string { return r.pick(names, []string{"a,b", "@list", "/(", "/a)", "+group", "a b"}) }
	return r.line(field(), field(), field())
}

// expression is a regular expression of what Go and PostgreSQL both have.
func (r randomText) expression(depth int) string {
	var text strings.Builder
	for range 1 + r.IntN(3) {
		if depth > 0 && r.IntN(3) == 0 {
			text.WriteString(r.one("(", "(?:") + r.expression(depth-1) + ")")
		} else {
			text.WriteString(r.one("a", "b", "ab", ".", `\.`, "[ab]", "[^a]", `\d`, `\w`, `\s`, "1", "[[:alpha:]]", "é", `\W`, `\D`, `[a\d]`, `[^\s]`))
		}
		if r.IntN(3) == 0 {
			text.WriteString(r.one("*", "+", "?", "{1,2}", "{2}", "{0,}", "*?", "+?"))
		}
	}
	if r.IntN(5) == 0 {
		text.WriteString("|" + r.expression(depth))
	}
	return text.String()
}
