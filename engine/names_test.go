package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestNastyNamesInErrors: whatever a client calls itself, the error that names its route is UTF-8 and of a bounded length.
func TestNastyNamesInErrors(t *testing.T) {
	t.Parallel()
	_, address := startYAML(t, fmt.Sprintf("databases: [{name: \"*\", hosts: [%q], dbname: postgres, user: postgres}]\n", pgtest.Shared(t).Addr()),
		"--capacity.max-route-in-flight=1", "--capacity.max-route-waiters=0")
	for _, name := range [][3]string{
		{strings.Repeat("/", 63), strings.Repeat("/", 20) + "😀😀", "a"}, // the 256th byte of the label lies inside a character
		{strings.Repeat("\xff", 63), strings.Repeat("%", 63), strings.Repeat("\xfe", 100)},
		{"a b", "a\nb", "\t"},
		{"é", strings.Repeat("😀", 15), strings.Repeat("😀", 30)},
	} {
		params := []string{"database", name[0], "user", name[1], "application_name", name[2]}
		hold := pgwire.Login(t, "tcp", address, params...)
		exec(t, hold, "begin")
		_, err := pgwire.Login(t, "tcp", address, params...).Exec("begin")
		f := overloaded(t, err, "ERROR", "53300")
		detail, _, _ := strings.Cut(f.Fields['D'], ";") // behind it stand the pool's names, which are PostgreSQL's own
		if !utf8.ValidString(f.Fields['D']) || len(detail) > 400 || !strings.Contains(detail, "1 of 1 in flight") || strings.ContainsAny(detail, "\t\n") {
			t.Errorf("%q: detail %q", name, f.Fields['D'])
		}
		exec(t, hold, "rollback")
	}
}
