package engine_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// reportedIn collects the ParameterStatus messages.
func reportedIn(all []pgwire.Message) map[string]string {
	m := map[string]string{}
	for _, msg := range all {
		if msg.Type == 'S' {
			f := strings.Split(string(msg.Body), "\x00")
			m[f[0]] = f[1]
		}
	}
	return m
}

// TestLoginReports: a login through the pooler reports what one at PostgreSQL itself does.
func TestLoginReports(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	for _, params := range [][]string{
		nil,
		{"application_name", "app", "client_encoding", "latin1", "DateStyle", "German", "TimeZone", "Asia/Tokyo"},
		{"options", "-c intervalstyle=iso_8601 -c TimeZone=utc --standard_conforming_strings=off"},
	} {
		params = append([]string{"user", "postgres", "database", "postgres"}, params...)
		var got [2]map[string]string
		for i, a := range []string{pg.Addr(), address} {
			all, err := pgwire.Dial(t, "tcp", a).Login(0, params...)
			if err != nil {
				t.Fatal(err)
			}
			got[i] = reportedIn(all)
		}
		if fmt.Sprint(got[0]) != fmt.Sprint(got[1]) {
			t.Errorf("%v:\nPostgreSQL reports %v\npg-kinetic reports %v", params, got[0], got[1])
		}
	}
}

// TestParametersInterleaved: clients with different values share one backend, and each sees its own, always.
func TestParametersInterleaved(t *testing.T) {
	t.Parallel()
	e, address := start(t, pgtest.Shared(t), "--capacity.pool-max-size=1", "--server.loops=2")
	const show = "select concat_ws('|', current_setting('application_name'), current_setting('client_encoding'), " +
		"current_setting('DateStyle'), current_setting('TimeZone'), current_setting('work_mem'), " +
		"current_setting('extra_float_digits'), current_setting('search_path'), current_setting('standard_conforming_strings'))"
	var all sync.WaitGroup
	for _, c := range []struct {
		params []string
		want   string
	}{
		{nil, `|UTF8|ISO, MDY|GMT|4MB|1|"$user", public|on`},
		{[]string{
			"application_name", "a", "client_encoding", "LATIN1", "DateStyle", "ISO, DMY", "TimeZone", "Asia/Tokyo",
			"extra_float_digits", "2",
		}, `a|LATIN1|ISO, DMY|Asia/Tokyo|4MB|2|"$user", public|on`},
		{[]string{"options", "-c work_mem=5MB -csearch_path=s1,public --standard-conforming-strings=off", "application_name", "b"}, "b|UTF8|ISO, MDY|GMT|5MB|1|s1,public|off"},
		{[]string{"options", `-c application_name=with\ blank`, "datestyle", "SQL"}, `with blank|UTF8|SQL, MDY|GMT|4MB|1|"$user", public|on`},
	} {
		conn := login(t, address, c.params...)
		want := strings.ReplaceAll(c.want, "GMT", pgtest.Shared(t).Value(t, "show timezone"))
		all.Go(func() {
			for range 25 {
				if got := one2(conn, show); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
					return
				}
			}
		})
	}
	all.Wait()
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL", n)
	}
}

// one2 is one for goroutines: the value, or the error as text.
func one2(c *pgwire.Conn, sql string) string {
	rows, err := c.Exec(sql)
	if err != nil || len(rows) != 1 {
		return fmt.Sprint(rows, err)
	}
	return rows[0][0]
}

// TestRefusedParameters: PostgreSQL's verdict and text, FATAL, the first and the second time.
func TestRefusedParameters(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	e, address := start(t, pg, "--capacity.pool-max-size=1")
	for _, params := range [][]string{
		{"no_such_parameter", "1"},
		{"options", "-c no_such_parameter=1"},
		{"work_mem", "lots"},
		{"TimeZone", "Nowhere/Nothing"},
		{"client_encoding", "no_such_encoding"},
		{"options", "-c work_mem"},
		{"options", "--nonsense"},
	} {
		direct := pgwire.Dial(t, "tcp", pg.Addr())
		_, err := direct.Login(0, append([]string{"user", "postgres", "database", "postgres"}, params...)...)
		want, ok := err.(*pgwire.Error)
		if !ok {
			t.Fatalf("%v: PostgreSQL gave %v", params, err)
		}
		for range 2 {
			_, err := tryLogin(t, address, params...)
			if f := refused(t, err, "FATAL", want.Code()); f.Fields['M'] != want.Fields['M'] {
				t.Errorf("%v: message %q, PostgreSQL says %q", params, f.Fields['M'], want.Fields['M'])
			}
		}
	}
	usable(t, login(t, address))
	if n := e.Totals().ServerLogins; n != 1 {
		t.Errorf("%d logins to PostgreSQL", n)
	}
}

// TestFirstLoginsRefused: a refusal before any backend is known is the same.
func TestFirstLoginRefused(t *testing.T) {
	t.Parallel()
	_, address := start(t, pgtest.Shared(t))
	_, err := tryLogin(t, address, "no_such_parameter", "1")
	refused(t, err, "FATAL", "42704")
	_, err = tryLogin(t, address, "work_mem", "lots")
	refused(t, err, "FATAL", "22023")
}

// TestParametersSurviveServers: what the client asked for holds on every backend that it meets.
func TestParametersSurviveServers(t *testing.T) {
	t.Parallel()
	pg := pgtest.Shared(t)
	_, address := start(t, pg)
	who := role(t, pg)
	c := pgwire.Login(t, "tcp", address, "user", who, "database", "postgres", "application_name", "mine", "options", "-c work_mem=6MB")
	const show = "select current_setting('application_name') || current_setting('work_mem')"
	for range 3 {
		if got := one(t, c, show); got != "mine6MB" {
			t.Errorf("got %s", got)
		}
		pg.KillBackends(t, "usename = '"+who+"'")
		until(t, "another backend", func() bool { _, err := c.Exec("select 1"); return err == nil })
	}
	// The settings travel with extended messages as well, and nothing of them shows in the answers.
	other := loginAs(t, address, who, "postgres")
	for range 3 {
		usable(t, other)
		send(t, c, pgwire.Parse("", show), pgwire.Bind("", ""), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
		if got := strings.ReplaceAll(types(t, c, 1), "S", ""); got != "12TDCZI" {
			t.Errorf("got %s", got)
		}
	}
}
