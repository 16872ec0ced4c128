package hba

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
)

// writeFile writes a file of PostgreSQL's, byte for byte.
func writeFile(t *testing.T, s *pgtest.Server, name, text string) {
	t.Helper()
	s.Exec(t, fmt.Sprintf(`SELECT lo_from_bytea(1, '\x%s'); SELECT lo_export(1, '%s'); SELECT lo_unlink(1)`,
		hex.EncodeToString([]byte(text)), name))
}

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

// parsedRule is a rule in the words of pg_hba_file_rules.
type parsedRule struct {
	kind, databases, users, address, method, options string
}

// ours reads a file as LoadRules does, line by line: its rules, and the problems
// of those that have some.
func ours(t *testing.T, source Source, name string) (rules map[int]parsedRule, problems map[int]string) {
	t.Helper()
	r := &reader{files: source.Files}
	rules, problems = map[int]parsedRule{}, map[int]string{}
	records := r.file(name, 0, configs.Place{})
	note := func(line int) {
		for _, p := range r.problems {
			if line == 0 {
				line = p.Place.Line
			}
			problems[line] += p.Message + "; "
		}
		r.problems = nil
	}
	for _, p := range r.problems {
		problems[p.Place.Line] += p.Message
	}
	r.problems = nil
	for _, rec := range records {
		p := lineParser{reader: r, record: rec, interfaces: source.Interfaces}
		rule := p.rule()
		if len(r.problems) > 0 {
			note(rec.place.Line)
			continue
		}
		parsed := parsedRule{kind: connectionNames[rule.connection], method: rule.line.Method.String()}
		parsed.databases, parsed.users = wordsOf(rec.fields[1]), wordsOf(rec.fields[2])
		if rule.connection != local {
			switch w := rec.fields[3][0].text; {
			case w == "all", w == "samehost", w == "samenet":
				parsed.address = w
			default:
				parsed.address = rule.networks[0].String()
			}
		}
		if rule.line.Map != "" {
			parsed.options = "map=" + rule.line.Map
		}
		if c := rule.line.ClientCert; c != 0 {
			parsed.options += "clientcert=" + []string{"", "verify-ca", "verify-full"}[c]
		}
		rules[rec.place.Line] = parsed
	}
	return rules, problems
}

func wordsOf(f field) string {
	var words []string
	for _, w := range f {
		words = append(words, w.text)
	}
	return strings.Join(words, "\x1f")
}

// theirs is a row of PostgreSQL's view, with a problem instead where it has one.
func theirs(t *testing.T, row []string) (parsedRule, string) {
	t.Helper()
	p := parsedRule{kind: row[1], databases: row[2], users: row[3], address: row[4], method: row[6], options: row[7]}
	if addr, err := netip.ParseAddr(row[4]); err == nil {
		mask := netip.MustParseAddr(row[5]).AsSlice()
		bits := strings.Count(fmt.Sprintf("%08b", mask), "1")
		p.address = netip.PrefixFrom(addr, bits).Masked().String()
	}
	switch {
	case row[1] == "":
		return p, row[8] + " (not read)" // some problems of options have no text
	case row[8] == "hostssl record cannot match because SSL is disabled":
		return p, "" // it is read all the same
	}
	return p, row[8]
}

// refusedHere tells whether pg-kinetic refuses by design what PostgreSQL takes: by
// what PostgreSQL has read.
func refusedHere(row []string, problem string) bool {
	has := func(list string, words ...string) bool {
		return slices.ContainsFunc(strings.Split(list, "\x1f"), func(w string) bool { return slices.Contains(words, w) })
	}
	switch {
	case strings.Contains(problem, "samerole"):
		return has(row[2], "samerole")
	case strings.Contains(problem, "the members of a role"):
		return has(row[3], "+group")
	case strings.Contains(problem, "host names are not supported"), strings.Contains(problem, "invalid address"):
		return row[4] != "" && row[5] == ""
	case strings.Contains(problem, "is not supported"):
		return row[6] == "peer" || row[6] == "ident"
	case strings.Contains(problem, "is not a number of one bits"):
		return row[5] == "255.0.0.1"
	}
	return strings.Contains(problem, "quotes are not closed")
}

// TestRulesAsPostgreSQL: random files mean the same to PostgreSQL, as its view
// pg_hba_file_rules tells, or are refused by both, line by line.
func TestRulesAsPostgreSQL(t *testing.T) {
	s := pgtest.Start(t)
	file := s.Value(t, "SHOW hba_file")
	const lists = "one, \"two words\" # and\n@more\n\n"
	writeFile(t, s, filepath.Join(filepath.Dir(file), "list"), lists)
	writeFile(t, s, filepath.Join(filepath.Dir(file), "more"), "three\nfour")
	agreed, refused, both := 0, 0, 0
	for seed := range uint64(20) {
		r := randomText{rand.New(rand.NewPCG(seed, 6))}
		text := r.file(300, r.rule)
		writeFile(t, s, file, text)
		rules, problems := ours(t, memory(map[string]string{"pg_hba.conf": text, "list": lists, "more": "three\nfour"}), "pg_hba.conf")
		for _, row := range s.Exec(t, `SELECT line_number, type, array_to_string(database, E'\x1f'), array_to_string(user_name, E'\x1f'),
			address, netmask, auth_method, array_to_string(array_remove(options, 'map='), ''), error FROM pg_hba_file_rules`) {
			var line int
			if _, err := fmt.Sscan(row[0], &line); err != nil {
				t.Fatal(err)
			}
			theirRule, theirError := theirs(t, row)
			ourRule, accepted := rules[line]
			switch {
			case theirError != "" && accepted:
				t.Errorf("seed %d line %d: PostgreSQL says %q, we read %+v", seed, line, theirError, ourRule)
			case theirError != "":
				both++
			case !accepted && !refusedHere(row, problems[line]):
				t.Errorf("seed %d line %d: PostgreSQL reads %+v, we say %q", seed, line, theirRule, problems[line])
			case !accepted:
				refused++
			case ourRule != theirRule:
				t.Errorf("seed %d line %d: PostgreSQL reads %+v, we %+v", seed, line, theirRule, ourRule)
			default:
				agreed++
			}
			delete(rules, line)
		}
		for line, rule := range rules {
			t.Errorf("seed %d line %d: PostgreSQL reads nothing, we %+v", seed, line, rule)
		}
		if t.Failed() {
			t.Logf("the file:\n%s", numbered(text))
			break
		}
	}
	if t.Logf("%d lines read alike, %d wrong to both, %d refused here only", agreed, both, refused); agreed < 1500 || both < 500 || refused < 100 {
		t.Error("the files say too little")
	}
}

func numbered(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = fmt.Sprintf("%d\t%q", i+1, lines[i])
	}
	return strings.Join(lines, "\n")
}
