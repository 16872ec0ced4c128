package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgkinetic/backend"
	"pgkinetic/protocol"
)

func snapshot(pairs ...string) *backend.Snapshot {
	var s *backend.Snapshot
	for _, p := range params(pairs...) {
		s = s.With([]byte(p.Name), []byte(p.Value))
	}
	return s
}

var server = snapshot("server_version", "15.4", "server_encoding", "UTF8")

func dataRow(columns ...string) []byte {
	row := binary.BigEndian.AppendUint16(nil, uint16(len(columns)))
	for _, c := range columns {
		row = append(binary.BigEndian.AppendUint32(row, uint32(len(c))), c...)
	}
	return row
}

func errorBody(code, message string) []byte {
	return fmt.Appendf(nil, "SERROR\x00C%s\x00M%s\x00\x00", code, message)
}

// answer is what a backend says to one probe: a row, or an error.
type answer struct {
	row  []byte
	fail []byte
}

func newJudge(t *testing.T, settings ...protocol.Param) *Judge {
	t.Helper()
	j, err := NewJudge(settings)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// ask answers the probes of j and returns the first error of Receive.
func ask(t *testing.T, j *Judge, answers ...answer) error {
	t.Helper()
	if j.Probes() != len(answers) {
		t.Fatalf("%d probes, want %d: %q", j.Probes(), len(answers), j.AppendProbes(nil))
	}
	j.AppendProbes(nil)
	for i, a := range answers {
		messages := []struct {
			typ  byte
			body []byte
		}{{'T', nil}, {'S', nil}, {'D', a.row}, {'E', a.fail}, {'C', nil}, {'Z', []byte("I")}}
		for _, m := range messages {
			if m.body == nil && (m.typ == 'D' || m.typ == 'E') {
				continue
			}
			done, err := j.Receive(m.typ, m.body)
			if err != nil {
				return err
			}
			if want := m.typ == 'Z' && i == len(answers)-1; done != want {
				t.Fatalf("answer %d, message %q: done %t", i, m.typ, done)
			}
		}
	}
	return nil
}

func decide(t *testing.T, j *Judge, v *Verdicts, now int64, want bool) {
	t.Helper()
	if ready, err := j.Decide(server, v, now); ready != want || err != nil {
		t.Fatalf("ready %t, %v, want %t", ready, err, want)
	}
}

func TestJudgeHere(t *testing.T) {
	var v Verdicts
	j := newJudge(t, params("user", "u", "application_name", "café", "client_encoding", "latin-1", "options", "-c transaction_isolation=serializable")...)
	decide(t, j, &v, 0, true)
	if want := Intern(params("application_name", "caf??", "client_encoding", "LATIN1")); j.Profile() != want {
		t.Errorf("profile %+v", j.Profile())
	}
	var names []string
	j.Unapplied(func(name string) { names = append(names, name) })
	if fmt.Sprint(names) != "[transaction_isolation]" {
		t.Errorf("unapplied %v", names)
	}
	j = newJudge(t, params("user", "u", "database", "d")...)
	decide(t, j, &v, 0, true)
	if j.Profile() != Empty() {
		t.Error("nothing asked for is not the empty profile")
	}
}

func TestJudgeAsksOnce(t *testing.T) {
	var v Verdicts
	wanted := params("TimeZone", "utc", "log_connections", "on", "search_path", "é")
	j := newJudge(t, wanted...)
	decide(t, j, &v, 0, false)
	sql := string(j.AppendProbes(nil))
	for _, want := range []string{
		`SELECT pg_catalog.set_config(E'timezone',E'utc',true)`,
		`SELECT pg_catalog.encode(pg_catalog.convert_to(pg_catalog.set_config(E'search_path',E'\xc3\xa9',true),pg_catalog.getdatabaseencoding()),'hex')`,
	} {
		if !strings.Contains(sql, want) {
			t.Errorf("%q lacks %q", sql, want)
		}
	}
	if err := ask(t, j, answer{row: dataRow("UTC")}, answer{fail: errorBody("55P02", "later")}, answer{row: dataRow("c3a9")}); err != nil {
		t.Fatal(err)
	}
	decide(t, j, &v, 0, true)
	want := Intern(params("timezone", "UTC", "search_path", "é"))
	if j.Profile() != want {
		t.Errorf("profile %+v", j.Profile())
	}
	// The next client with these values needs no backend, even much later.
	j = newJudge(t, wanted...)
	decide(t, j, &v, 1e15, true)
	if j.Profile() != want {
		t.Errorf("profile from cached verdicts %+v", j.Profile())
	}
	v.Clear()
	decide(t, newJudge(t, wanted...), &v, 1e15, false)
}

func TestJudgeDateStyleIsAskedFromItsDefault(t *testing.T) {
	want := `SELECT pg_catalog.set_config(E'datestyle',NULL,true),pg_catalog.set_config(E'datestyle',E'DMY',true)`
	if got := ProbeSQL(protocol.Param{Name: "datestyle", Value: "DMY"}); got != want {
		t.Errorf("%s", got)
	}
	var v Verdicts
	j := newJudge(t, params("DateStyle", "DMY")...)
	decide(t, j, &v, 0, false)
	if err := ask(t, j, answer{row: dataRow("ISO, MDY", "ISO, DMY")}); err != nil {
		t.Fatal(err)
	}
	decide(t, j, &v, 0, true)
	if j.Profile() != Intern(params("datestyle", "ISO, DMY")) {
		t.Errorf("profile %+v", j.Profile())
	}
}

func TestJudgeRefusals(t *testing.T) {
	var v Verdicts
	refusedAt := func(now int64) error {
		t.Helper()
		j := newJudge(t, params("nope", "1")...)
		ready, err := j.Decide(server, &v, now)
		if err != nil || ready {
			return err
		}
		if err := ask(t, j, answer{fail: errorBody("42704", "unrecognized")}); err != nil {
			t.Fatal(err)
		}
		_, err = j.Decide(server, &v, now)
		return err
	}
	want := `unrecognized (SQLSTATE 42704)`
	if err := refusedAt(0); err == nil || err.Error() != want {
		t.Fatalf("got %v, want %s", err, want)
	}
	if _, err := newJudge(t, params("nope", "1")...).Decide(server, &v, refusalHold-1); err == nil || err.Error() != want {
		t.Errorf("within two seconds %v, want the refusal remembered", err)
	}
	if ready, err := newJudge(t, params("nope", "1")...).Decide(server, &v, refusalHold); ready || err != nil {
		t.Errorf("after two seconds ready %t, %v, want to ask again", ready, err)
	}
	if _, err := newJudge(t, params("client_encoding", "klingon")...).Decide(server, &v, 0); err == nil || !strings.Contains(err.Error(), "22023") {
		t.Errorf("unknown encoding: %v", err)
	}
}

// An answer about the server's state says nothing about the setting: this
// login fails with it, the next one asks again.
func TestJudgeUndecided(t *testing.T) {
	for _, a := range []answer{
		{fail: errorBody("57014", "canceled")},
		{fail: errorBody("57P01", "bye")},
		{fail: errorBody("XX000", "bug")},
		{fail: errorBody("", "what")},
		{row: dataRow("zz")},
	} {
		var v Verdicts
		j := newJudge(t, params("a.b", "é")...)
		decide(t, j, &v, 0, false)
		err := ask(t, j, a)
		var s *SettingError
		if !errors.As(err, &s) || s.Answer().Message == "" {
			t.Errorf("%q %q: %v", a.row, a.fail, err)
		}
		if v.table.Load() != nil {
			t.Errorf("%q %q: remembered", a.row, a.fail)
		}
	}
}

func TestJudgeWithoutSnapshotAsks(t *testing.T) {
	j := newJudge(t, params("application_name", "a", "client_encoding", "utf8")...)
	var v Verdicts
	if ready, err := j.Decide((*backend.Snapshot)(nil), &v, 0); ready || err != nil || j.Probes() != 2 {
		t.Errorf("ready %t, %v, %d probes", ready, err, j.Probes())
	}
}

func TestJudgeMalformedRows(t *testing.T) {
	full := dataRow("ab", "cd")
	for cut := range len(full) {
		if got := lastColumn(full[:cut]); got != nil {
			t.Errorf("cut at %d: %q", cut, got)
		}
	}
	if got := lastColumn(full); string(got) != "cd" {
		t.Errorf("last column %q", got)
	}
	if got := lastColumn([]byte("\x00\x01\xff\xff\xff\xff")); got != nil {
		t.Errorf("NULL is %q", got)
	}
}

func TestVerdictsAreBounded(t *testing.T) {
	var v Verdicts
	key := func(i int) protocol.Param { return protocol.Param{Name: "x.y", Value: fmt.Sprint(i)} }
	for i := range 3 * maxVerdicts {
		v.put(key(i), verdict{kind: accepted, value: fmt.Sprint(i)})
	}
	table := v.table.Load()
	if len(table.byKey) != maxVerdicts || len(table.order) != maxVerdicts {
		t.Errorf("%d verdicts, %d in order", len(table.byKey), len(table.order))
	}
	if got := v.get(key(3*maxVerdicts-1), 0); got.kind != accepted {
		t.Error("the newest is gone")
	}
	if got := v.get(key(2*maxVerdicts-1), 0); got.kind != unknown {
		t.Error("an older one is still there")
	}
	big := strings.Repeat("x", maxVerdictBytes/8)
	for i := range 20 {
		v.put(protocol.Param{Name: "big", Value: fmt.Sprint(i, big)}, verdict{kind: accepted})
	}
	table, size := v.table.Load(), 0
	for k, d := range table.byKey {
		size += verdictSize(k, d)
	}
	if size > maxVerdictBytes || size != table.bytes || len(table.order) != len(table.byKey) {
		t.Errorf("%d bytes kept, %d counted", size, table.bytes)
	}
	v.put(protocol.Param{Name: "huge", Value: strings.Repeat("x", maxVerdictBytes/2)}, verdict{kind: accepted})
	if v.table.Load() != table {
		t.Error("a huge value drove out others")
	}
}

func TestVerdictsReplace(t *testing.T) {
	var v Verdicts
	a, b := protocol.Param{Name: "a"}, protocol.Param{Name: "b"}
	v.put(a, verdict{kind: refused, refusal: &SettingError{}, until: 10})
	v.put(b, verdict{kind: accepted})
	v.put(a, verdict{kind: accepted, value: "1"})
	if got := v.get(a, 20); got.kind != accepted || got.value != "1" {
		t.Errorf("got %+v", got)
	}
	if table := v.table.Load(); len(table.order) != 2 || table.order[1] != a {
		t.Errorf("order %v", table.order)
	}
}

func TestVerdictsConcurrently(t *testing.T) {
	var v Verdicts
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 50 {
				v.put(protocol.Param{Name: fmt.Sprint(i), Value: fmt.Sprint(n)}, verdict{kind: accepted})
			}
		})
	}
	wg.Wait()
	if n := len(v.table.Load().byKey); n != 400 {
		t.Errorf("%d verdicts, want 400", n)
	}
}
