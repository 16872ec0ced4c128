package configs

import "testing"

func TestDefault(t *testing.T) {
	c := Default()
	if c.Server.MaxClients != 10000 || c.Databases[0].Host().Address != "127.0.0.1:5432" || c.Capacity.PoolMaxSize != 20 {
		t.Fatalf("defaults: %+v", c)
	}
}
