package main

import (
	"log/slog"
	"net"
	"net/http"
	"testing"

	"pgkinetic/admin/admintest"
	"pgkinetic/configs"
)

// Where the default address is somebody else's, there is no HTTP; that does not keep reloads from holding, and one of them finds
// the address when it is free. An address that was asked for must be had.
func TestDefaultAddressInUse(t *testing.T) {
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	address := other.Addr().(*net.TCPAddr)
	at := func(address string) *configs.Config {
		return &configs.Config{Admin: configs.Admin{Listen: address}}
	}
	p := &pages{control: &admintest.Control{}, log: slog.New(slog.DiscardHandler)}
	defer p.close()
	unset, set := &configs.Origins{}, originsOf(t, "--admin.listen="+address.String())
	hold := func(prepare part, cfg *configs.Config) {
		t.Helper()
		commit, err := prepare(cfg)
		if err != nil {
			t.Fatal(err)
		}
		commit(true)
	}
	if _, err := p.first(set)(at(address.String())); err == nil {
		t.Error("an address that was asked for is in use, and nobody is told")
	}
	hold(p.first(unset), at(address.String()))
	p.serve()
	hold(p.prepare, at(address.String()))
	if p.server != nil {
		t.Fatal("there are two on one address")
	}
	if _, err := p.prepare(at("127.0.0.1:0.5")); err == nil {
		t.Error("a reload to what is no address holds")
	}
	other.Close()
	hold(p.prepare, at(address.String()))
	if status, _, err := get(address.Port, "/livez"); status != http.StatusOK {
		t.Errorf("when the address has become free: %d, %v", status, err)
	}
}

// originsOf tells where settings come from that only flags set.
func originsOf(t *testing.T, flags ...string) *configs.Origins {
	t.Helper()
	_, origins, problems := configs.Load("", nil, flags)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return origins
}
