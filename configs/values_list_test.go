package configs

import (
	"strings"
	"testing"
)

// TestValues: every setting of the process is there, as it is; of lists what is set; no secret.
func TestValues(t *testing.T) {
	c, _, problems := Load("", nil, []string{"--server.max-clients=77", "--server.listen=127.0.0.1:1,127.0.0.1:2"})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	size := 3
	c.Databases = append(c.Databases, Database{Name: "a", Hosts: c.Databases[0].Hosts, Password: "hidden", Limits: Limits{PoolMaxSize: &size}})
	values := map[string]Value{}
	for _, v := range Values(c) {
		values[v.Path] = v
		if strings.Contains(v.Text, "hidden") {
			t.Errorf("%+v", v)
		}
	}
	for path, want := range map[string][2]string{
		"server.max_clients": {"77", "10000"}, "server.listen": {"127.0.0.1:1, 127.0.0.1:2", "127.0.0.1:6432"}, "server.max_buffer_memory": {"256MiB", "256MiB"},
		"databases[1].name": {"a", ""}, "databases[1].pool_max_size": {"3", ""}, "log.connections": {"true", "true"}, "capacity.overload_error_code": {"53300", "53300"},
		"databases[0].hosts": {"127.0.0.1:5432", "127.0.0.1:5432"}, "databases[1].password": {"***", ""}, "server.unix_socket_dir": {"", ""},
	} {
		if v := values[path]; v.Text != want[0] || v.Default != want[1] || v.Option == nil {
			t.Errorf("%s: %q, default %q, want %q", path, v.Text, v.Default, want)
		}
	}
	for _, o := range Options() {
		if _, ok := values[o.Path()]; o.Scope == ScopeProcess && !ok {
			t.Errorf("%s is not there", o.Path())
		}
	}
	if _, ok := values["databases[0].pool_max_size"]; ok {
		t.Error("what is not set is told")
	}
}
