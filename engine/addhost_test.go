package engine_test

import (
	"regexp"
	"strings"
	"testing"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

// TestApplicationNameAddHost: PostgreSQL sees the client's address, that behind its proxy if there is one; a name is cut for
// it, and the client's route keeps the name as it is.
func TestApplicationNameAddHost(t *testing.T) {
	t.Parallel()
	e, address := startYAML(t, `
server: {listen: ["127.0.0.1:0"], proxy_protocol: optional, proxy_protocol_from: ["127.0.0.0/8"]}
databases: [{name: postgres, hosts: ["`+pgtest.Shared(t).Addr()+`"], application_name_add_host: true}]
admission: {route_key: [database, user, application_name]}`)
	enter := func(header, name string) *pgwire.Conn {
		c := pgwire.Dial(t, "tcp", address)
		send(t, c, []byte(header))
		if _, err := c.Login(0, "user", "postgres", "application_name", name); err != nil {
			t.Fatal(err)
		}
		return c
	}
	const ask = "select current_setting('application_name')"
	if got := one(t, enter("", "direct"), ask); !regexp.MustCompile(`^direct - 127\.0\.0\.1:[0-9]+$`).MatchString(got) {
		t.Error(got)
	}
	if got := one(t, enter("PROXY TCP4 10.1.2.3 10.0.0.2 4321 5432\r\n", "proxied"), ask); got != "proxied - 10.1.2.3:4321" {
		t.Error(got)
	}
	long := strings.Repeat("n", 63)
	if got := one(t, enter("PROXY TCP6 2001:db8::1 ::1 4321 5432\r\n", long), ask); len(got) != 63 || !strings.HasSuffix(got, "n - [2001:db8::1]:4321") {
		t.Error(got)
	}
	labels := ""
	for _, r := range e.Routes() {
		labels += r.Route + " "
	}
	if !strings.Contains(labels, "/direct") || strings.Contains(labels, "127.0.0.1") {
		t.Errorf("routes %s", labels)
	}
}
