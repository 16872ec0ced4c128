package guide

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.yaml.in/yaml/v3"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

const logins page = "../../docs/login.md"

// TestUsersFromPostgreSQL: PostgreSQL's users come in with their passwords, by README's settings and by the function that the
// page on logins shows, and nobody else does.
func TestUsersFromPostgreSQL(t *testing.T) {
	t.Parallel()
	s := pgtest.Start(t)
	s.Exec(t, "CREATE ROLE guest LOGIN PASSWORD 'of the guest'")
	s.Exec(t, logins.block(t, "sql", "CREATE SCHEMA pooler"))
	byFunction := "SELECT * FROM pooler.secret($1)\n"
	if shown := logins.block(t, "sql", "SELECT * FROM"); shown != byFunction {
		t.Errorf("the page shows %q", shown)
	}
	comesInBy(t, s, "--auth.auth-user=pooler", "--auth.auth-query="+byFunction)

	var ours struct {
		Auth map[string]string
	}
	if err := yaml.Unmarshal([]byte(readme.block(t, "yaml", "auth_query")), &ours); err != nil {
		t.Fatal(err)
	}
	s.Exec(t, "ALTER ROLE pooler SUPERUSER PASSWORD 'its password'")
	users := filepath.Join(t.TempDir(), ours.Auth["users_file"])
	if err := os.WriteFile(users, []byte("\"pooler\" \"its password\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours.Auth["users_file"] = users
	var flags []string
	for name, value := range ours.Auth {
		flags = append(flags, fmt.Sprintf("--auth.%s=%s", strings.ReplaceAll(name, "_", "-"), value))
	}
	comesInBy(t, s, flags...)
}

// comesInBy starts the product and tries the guest's password and another one.
func comesInBy(t *testing.T, s *pgtest.Server, flags ...string) {
	t.Helper()
	p := pooler.Start(t, s, pooler.Options{Target: pooler.Kinetic, Flags: append([]string{"--auth.method=scram-sha-256"}, flags...)})
	config, err := pgx.ParseConfig(p.DSN("guest", "postgres"))
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ password, want string }{{"of the guest", ""}, {"of nobody", "28P01"}} {
		config.Password = x.password
		c, err := pgx.ConnectConfig(t.Context(), config)
		if err == nil {
			_, err = c.Exec(t.Context(), "SELECT 1")
			_ = c.Close(t.Context())
		}
		if (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %q: %v, want %q", flags, x.password, err, x.want)
		}
	}
}
