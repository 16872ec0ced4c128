// Package setscript makes random scripts of what clients do to their settings, for
// tests that compare a client of a pooler with one of PostgreSQL itself.
package setscript

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgkinetic/internal/pgwire"
	"pgkinetic/protocol"
)

// Roles makes the roles that scripts name.
const Roles = "DROP ROLE IF EXISTS r, s; CREATE ROLE r; CREATE ROLE s; GRANT r TO s"

// Startups are startup parameters to begin a script with. A group or Query may hold
// a RESET, and read behind it what it decides: so no startup value is of a parameter
// that decides on others.
var Startups = [][]string{
	nil,
	{"TimeZone", "Asia/Kolkata", "application_name", "me", "options", "-c work_mem=9MB -c search_path=st,public -c my.own=mine"},
	{"role", "r", "statement_timeout", "77s", "DateStyle", "ISO, YMD", "lock_timeout", "9s"},
}

// Request is what a client sends up to a Query or Sync.
type Request struct {
	Texts    []string
	Extended bool // one Parse, Bind and Execute for each text, and a Sync
}

// Message is one message of a Request, with the text that it executes, if it does.
type Message struct {
	Raw []byte
	SQL string
}

// Messages are those of the request: a Query, or a group.
func (r Request) Messages() (all []Message) {
	if !r.Extended {
		sql := strings.Join(r.Texts, "; ")
		return []Message{{pgwire.Query(sql), sql}}
	}
	for _, sql := range r.Texts {
		all = append(all, Message{Raw: pgwire.Parse("", sql)}, Message{Raw: pgwire.Bind("", "")}, Message{pgwire.Execute("", 0), sql})
	}
	return append(all, Message{Raw: pgwire.Sync()})
}

// Pipeline makes one to three requests that are sent in one go.
func Pipeline(rng *rand.Rand) (requests []Request) {
	reset := false
	for range 1 + rng.IntN(3)*rng.IntN(2) {
		r := Request{Extended: rng.IntN(2) == 0}
		for range 1 + rng.IntN(3)*rng.IntN(2) {
			sql := statement(rng)
			if reset && strings.Contains(sql, "CURRENT") {
				continue // it would be the server's value: see package session
			}
			reset = reset || strings.Contains(sql, "RESET") || strings.Contains(sql, "DEFAULT") || strings.Contains(sql, "DISCARD")
			r.Texts = append(r.Texts, sql)
		}
		requests = append(requests, r)
	}
	return requests
}

// Line describes them.
func Line(requests []Request) string {
	var b strings.Builder
	for _, r := range requests {
		kind := "Query"
		if r.Extended {
			kind = "group"
		}
		fmt.Fprintf(&b, "%s %q ", kind, r.Texts)
	}
	return b.String()
}

// Run sends the requests and returns what they are answered, in short.
func Run(t testing.TB, wire *pgwire.Conn, requests []Request) (answers []string) {
	t.Helper()
	for _, r := range requests {
		for _, m := range r.Messages() {
			if err := wire.Send(m.Raw); err != nil {
				t.Fatal(err)
			}
		}
	}
	messages, err := wire.ReadUntil('Z', len(requests))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if s := Brief(m); s != "" {
			answers = append(answers, s)
		}
	}
	return answers
}

// Brief is what of an answer must be the same; empty for most.
func Brief(m pgwire.Message) string {
	switch m.Type {
	case protocol.BackendErrorResponse:
		return "ERROR " + pgwire.ErrorOf(m).Code()
	case protocol.BackendCommandComplete, protocol.BackendReadyForQuery:
		return string(m.Type) + " " + strings.TrimRight(string(m.Body), "\x00")
	}
	return ""
}

// Shown are the parameters that are compared.
var Shown = []string{
	"application_name", "TimeZone", "DateStyle", "IntervalStyle", "standard_conforming_strings", "client_encoding",
	"work_mem", "statement_timeout", "search_path", "extra_float_digits", "my.own", "enable_seqscan", "xmloption",
	"default_transaction_isolation", "default_transaction_read_only", "default_transaction_deferrable",
	"transaction_isolation", "role", "session_authorization", "is_superuser", "lock_timeout", "log_destination",
}

// ShowSQL asks for them.
func ShowSQL() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	for i, name := range Shown {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, "coalesce(pg_catalog.current_setting('%s', true), '')", name)
	}
	return b.String()
}

// Values are what the answers to ShowSQL say: nothing where the block has failed.
func Values(messages []pgwire.Message) map[string]string {
	all := map[string]string{}
	for _, m := range messages {
		if m.Type == protocol.BackendDataRow {
			for i, v := range pgwire.Values(m) {
				all[Shown[i]] = v
			}
		}
	}
	return all
}

func pick(rng *rand.Rand, of ...string) string { return of[rng.IntN(len(of))] }

// assignment is the name and the values of one SET.
func assignment(rng *rand.Rand) (name, value string) {
	switch rng.IntN(13) {
	case 0:
		return "application_name", pick(rng, "one", "'two'", "\"Three\"", "E'fo\\x75r'", "$$five$$")
	case 1:
		return "TimeZone", pick(rng, "'Europe/Berlin'", "utc", "-3", "'Mars'")
	case 2:
		return pick(rng, "DateStyle", "datestyle"), pick(rng, "iso, dmy", "'German, YMD'", "SQL, MDY")
	case 3:
		return "IntervalStyle", pick(rng, "iso_8601", "sql_standard", "none")
	case 4:
		return "standard_conforming_strings", pick(rng, "on", "off")
	case 5:
		return "work_mem", pick(rng, "'8MB'", "1000", "'5MB'", "-1")
	case 6:
		return "statement_timeout", pick(rng, "'100s'", "50000", "0")
	case 7:
		return "search_path", pick(rng, "a, \"B c\"", "public", "'x''y', pg_catalog", "1", "''")
	case 8:
		return "my.own", pick(rng, "'a\\b'", "on", "'é'", "1.5", "E'a\\\\b\\'c'", "'--'")
	case 9:
		return pick(rng, "enable_seqscan", "\"enable_seqscan\""), pick(rng, "on", "off", "false")
	case 10:
		return "log_destination", pick(rng, "stderr", "csvlog, stderr")
	case 11:
		return "extra_float_digits", pick(rng, "0", "3", "+2", "99")
	}
	return "lock_timeout", pick(rng, "'3s'", "4000")
}

func special(rng *rand.Rand) string {
	return pick(rng, "SET TIME ZONE 'Asia/Tokyo'", "SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE", "SET TIME ZONE LOCAL",
		"SET NAMES 'latin1'", "SET NAMES", "SET SCHEMA 'sc'", "SET XML OPTION DOCUMENT", "SET ROLE r", "SET ROLE NONE",
		"SET ROLE s", "SET role = 'r'", "RESET ROLE", "SET SESSION AUTHORIZATION s", "SET SESSION AUTHORIZATION DEFAULT",
		"RESET SESSION AUTHORIZATION", "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
		"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE",
		"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SET transaction_isolation = 'serializable'", "RESET xmloption",
		"SELECT pg_catalog.set_config('search_path', '', false)", "SELECT set_config('my.own', 'x' || 'y', false) FROM generate_series(1, 2)",
		"SELECT set_config('my.own', 'local', true)", "SELECT set_config('work_' || 'mem', '7MB', false)",
		"SET work_mem FROM CURRENT", "PREPARE TRANSACTION 'no'", "SET nope = 1", "SELECT 1/0", "SELECT 1", "SELECT 1")
}

func control(rng *rand.Rand) string {
	return pick(rng, "BEGIN", "BEGIN", "START TRANSACTION", "COMMIT", "END", "ROLLBACK", "ABORT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN",
		"SAVEPOINT a", "SAVEPOINT b", "SAVEPOINT \"a\"", "RELEASE a", "RELEASE b", "ROLLBACK TO a", "ROLLBACK TO b", "ROLLBACK TO SAVEPOINT b")
}

func statement(rng *rand.Rand) string {
	switch n := rng.IntN(20); {
	case n < 8:
		name, value := assignment(rng)
		return pick(rng, "SET ", "SET ", "SET SESSION ", "SET LOCAL ", "set ") + name + pick(rng, " = ", " TO ", "/* x */TO ") + value
	case n < 10:
		name, _ := assignment(rng)
		return pick(rng, "RESET "+name, "SET "+name+" TO DEFAULT", "RESET ALL", "DISCARD ALL")
	case n < 15:
		return control(rng)
	}
	return special(rng)
}

// ValuesOf asks a session for them.
func ValuesOf(t testing.TB, wire *pgwire.Conn) map[string]string {
	t.Helper()
	if err := wire.Send(pgwire.Query(ShowSQL())); err != nil {
		t.Fatal(err)
	}
	answers, err := wire.ReadUntil('Z', 1)
	if err != nil {
		t.Fatal(err)
	}
	return Values(answers)
}

// Difference tells where got is not want; empty if it is.
func Difference(got, want map[string]string) string {
	var b strings.Builder
	for _, name := range Shown {
		if got[name] != want[name] {
			fmt.Fprintf(&b, "%s=%q, want %q; ", name, got[name], want[name])
		}
	}
	return b.String()
}
