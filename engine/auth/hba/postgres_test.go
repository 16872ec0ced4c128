package hba

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/internal/pgtest"
)

// writeFile writes a file of PostgreSQL's, byte for byte.
func writeFile(t *testing.T, s *pgtest.Server, name, text string) {
	t.Helper()
	s.Exec(t, fmt.Sprintf(`SELECT lo_from_bytea(1, '\x%s'); SELECT lo_export(1, '%s'); SELECT lo_unlink(1)`,
		hex.EncodeToString([]byte(text)), name))
}

// parsedRule is a rule in the words of pg_hba_file_rules.
type parsedRule struct {
	kind, databases, users, address, method, options string
}

// ours reads a file as LoadRules does, line by line: its rules, and the problems
// of the lines that have some.
func ours(source Source, name string) (rules map[int]parsedRule, problems map[int]string) {
	r := &reader{files: source.Files}
	rules, problems = map[int]parsedRule{}, map[int]string{}
	for _, rec := range r.file(name, 0, configs.Place{}) {
		before := len(r.problems)
		p := lineParser{reader: r, record: rec, interfaces: source.Interfaces}
		rule := p.rule()
		r.spent = false // of problems there are more than anybody wants to see
		if len(r.problems) > before {
			problems[rec.place.Line] = fmt.Sprint(r.problems[before:])
			r.problems = r.problems[:before]
			continue
		}
		rules[rec.place.Line] = rule.parsed(rec)
	}
	for _, p := range r.problems { // those of lines that could not be taken apart
		problems[p.Place.Line] += p.String()
	}
	return rules, problems
}

func (r *rule) parsed(rec record) parsedRule {
	parsed := parsedRule{
		kind: connectionNames[r.connection], databases: wordsOf(rec.fields[1]), users: wordsOf(rec.fields[2]), method: r.line.Method.String(),
	}
	if r.connection != local {
		parsed.address = rec.fields[3][0].text
		if len(r.networks) == 1 {
			parsed.address = r.networks[0].String()
		}
	}
	if r.line.Map != "" {
		parsed.options = "map=" + r.line.Map
	}
	if r.line.ClientCert != auth.NoClientCert {
		parsed.options += "clientcert=" + map[auth.ClientCert]string{auth.VerifyCA: "verify-ca", auth.VerifyFull: "verify-full"}[r.line.ClientCert]
	}
	return parsed
}

func wordsOf(f field) string {
	var words []string
	for _, w := range f {
		words = append(words, w.text)
	}
	return strings.Join(words, "\x1f")
}

// theirs is a row of PostgreSQL's view, with a problem instead where it has one.
func theirs(row []string) (parsedRule, string) {
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

// TestAsPostgreSQL compares with one server.
func TestAsPostgreSQL(t *testing.T) {
	s := pgtest.Start(t)
	directory := filepath.Dir(s.Value(t, "SHOW hba_file"))
	files := map[string]string{"list": "one, \"two words\" # and\n@more\n\n", "more": "three\nfour", "one": "\n# a\na\n"}
	for name, text := range files {
		writeFile(t, s, filepath.Join(directory, name), text)
	}
	t.Run("rules", func(t *testing.T) { rulesAsPostgreSQL(t, s, files) })
	t.Run("maps", func(t *testing.T) { mapsAsPostgreSQL(t, s, files) })
	t.Run("expressions", func(t *testing.T) { expressionsAsPostgreSQL(t, s) })
}

// rulesAsPostgreSQL: random files mean the same to PostgreSQL, as its view
// pg_hba_file_rules tells, or are refused by both, line by line.
func rulesAsPostgreSQL(t *testing.T, s *pgtest.Server, files map[string]string) {
	agreed, refused, both := 0, 0, 0
	for seed := uint64(0); seed < 20 && !t.Failed(); seed++ {
		r := randomText{rand.New(rand.NewPCG(seed, 6))}
		files["rules"] = r.file(300, r.rule)
		writeFile(t, s, s.Value(t, "SHOW hba_file"), files["rules"])
		rules, problems := ours(memory(files), "rules")
		for _, row := range s.Exec(t, `SELECT line_number, type, array_to_string(database, E'\x1f'), array_to_string(user_name, E'\x1f'),
			address, netmask, auth_method, array_to_string(array_remove(options, 'map='), ''), error FROM pg_hba_file_rules`) {
			line, err := strconv.Atoi(row[0])
			if err != nil {
				t.Fatal(err)
			}
			theirRule, theirError := theirs(row)
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
		logFailed(t, files["rules"])
	}
	if t.Logf("%d lines read alike, %d wrong to both, %d refused here only", agreed, both, refused); agreed < 1500 || both < 500 || refused < 100 {
		t.Error("the files say too little")
	}
}

// mapsAsPostgreSQL: the same of user name maps and pg_ident_file_mappings, which
// PostgreSQL has from version 15 on.
func mapsAsPostgreSQL(t *testing.T, s *pgtest.Server, files map[string]string) {
	agreed, refused, both := 0, 0, 0
	for seed := uint64(0); seed < 5 && !t.Failed(); seed++ {
		r := randomText{rand.New(rand.NewPCG(seed, 7))}
		files["maps"] = r.file(200, r.mapping)
		writeFile(t, s, s.Value(t, "SHOW ident_file"), files["maps"])
		read := &reader{files: memory(files).Files}
		records := map[int]record{}
		for _, rec := range read.file("maps", 0, configs.Place{}) {
			records[rec.place.Line] = rec
		}
		for _, row := range s.Exec(t, "SELECT line_number, map_name, sys_name, pg_username, error FROM pg_ident_file_mappings") {
			line, err := strconv.Atoi(row[0])
			if err != nil {
				t.Fatal(err)
			}
			rec, whole := records[line]
			delete(records, line)
			p := lineParser{reader: &reader{}, record: rec}
			if whole {
				p.mapping()
			}
			switch accepted := whole && len(p.problems) == 0; {
			case row[4] != "" && accepted:
				t.Errorf("seed %d line %d: PostgreSQL says %q, we read %v", seed, line, row[4], rec.fields)
			case row[4] != "":
				both++
			case !accepted && whole && !strings.HasPrefix(row[3], "/") && !slices.ContainsFunc([]string{"more than three fields", "means the members", "refers to a group"}, func(reason string) bool {
				return strings.Contains(p.problems[0].Message, reason)
			}):
				t.Errorf("seed %d line %d: PostgreSQL reads %q, we say %v", seed, line, row[1:4], p.problems)
			case !accepted: // or its quotes are not closed; version 15 takes a user as an expression for a name
				refused++
			case row[1] != rec.fields[0][0].text || row[2] != rec.fields[1][0].text || row[3] != rec.fields[2][0].text:
				t.Errorf("seed %d line %d: PostgreSQL reads %q, we %v", seed, line, row[1:4], rec.fields)
			default:
				agreed++
			}
		}
		for line, rec := range records {
			t.Errorf("seed %d line %d: PostgreSQL reads nothing, we %v", seed, line, rec.fields)
		}
		logFailed(t, files["maps"])
	}
	if t.Logf("%d lines read alike, %d wrong to both, %d refused here only", agreed, both, refused); agreed < 200 || both < 50 {
		t.Error("the files say too little")
	}
}

// expressionsAsPostgreSQL: what compile takes finds the same.
func expressionsAsPostgreSQL(t *testing.T, s *pgtest.Server) {
	r := randomText{rand.New(rand.NewPCG(1, 8))}
	var pairs [][2]string
	var values []string
	for range 3000 {
		pair := [2]string{r.one("", "", "(?i)") + r.one("", "^") + r.expression(2) + r.one("", "$"), ""}
		for range r.IntN(8) {
			pair[1] += r.one("a", "b", "1", ".", "A", "\n", "é", " ", "ab", "a")
		}
		pairs = append(pairs, pair)
		values = append(values, fmt.Sprintf("('%s', '%s')", pair[0], pair[1]))
	}
	matches := 0
	for i, row := range s.Exec(t, "SELECT s ~ p FROM (VALUES "+strings.Join(values, ",")+") v (p, s)") {
		p, err := compile(pairs[i][0])
		if err != nil || p.MatchString(pairs[i][1]) != (row[0] == "t") {
			t.Errorf("%q in %q: PostgreSQL says %s; we %v, %v", pairs[i][0], pairs[i][1], row[0], p, err)
		}
		if row[0] == "t" {
			matches++
		}
	}
	if matches < 500 || matches > 2500 {
		t.Errorf("%d of 3000 match", matches)
	}
}

func logFailed(t *testing.T, text string) {
	if !t.Failed() {
		return
	}
	for i, line := range strings.Split(text, "\n") {
		t.Logf("%d\t%q", i+1, line)
	}
}
