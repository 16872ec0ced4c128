package hba

import (
	"slices"
	"strings"
	"testing"

	"pgkinetic/configs"
)

func TestDoubts(t *testing.T) {
	files := memory(map[string]string{"ident": "known cn user\n"})
	maps, _ := LoadMaps(files, "ident", configs.Place{})
	all := Circumstances{Socket: true, TLS: true, ClientCA: true, Secrets: true, Maps: maps}
	f := func(line string, c Circumstances, want string) {
		t.Helper()
		rules, problems := LoadRules(memory(map[string]string{"hba": "local all nobody reject\n" + line + "\n"}), "hba", configs.Place{})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		doubts := rules.Doubts(c)
		doubts = slices.DeleteFunc(doubts, func(p configs.Problem) bool { return p.Place.Line != 2 })
		switch {
		case want == "" && len(doubts) > 0, want != "" && (len(doubts) != 1 || !strings.Contains(doubts[0].String(), want)):
			t.Errorf("%s: %v, want %q", line, doubts, want)
		}
	}
	without := func(change func(*Circumstances)) Circumstances {
		c := all
		change(&c)
		return c
	}
	noTLS := without(func(c *Circumstances) { c.TLS, c.ClientCA = false, false })
	f("hostssl all all all scram-sha-256", all, "")
	f("hostssl all all all scram-sha-256", noTLS, "hba:2:1: the hostssl line is for no client: tls.client_mode is disable")
	f("hostssl all all all cert", noTLS, "the hostssl line is for no client")
	f("hostnossl all all all trust", all, "")
	f("hostnossl all all all trust", without(func(c *Circumstances) { c.OnlyTLS = true }), "the hostnossl line is for no client: tls.client_mode lets nobody in")
	f("hostgssenc all all all reject", all, "the hostgssenc line is for no client")
	f("local all all trust", all, "")
	f("local all all trust", without(func(c *Circumstances) { c.Socket = false }), "the local line is for no client: server.unix_socket_dir")
	noCA := without(func(c *Circumstances) { c.ClientCA = false })
	f("hostssl all all all cert", all, "")
	f("hostssl all all all cert", noCA, "asks for a certificate that no client can show: tls.client_ca_file is not set")
	f("hostssl all all all scram-sha-256 clientcert=verify-ca", noCA, "asks for a certificate")
	f("hostssl all all all scram-sha-256", noCA, "")
	f("hostssl all all all cert map=known", all, "")
	f("hostssl all all all cert map=other", all, `auth.ident_file has no line for map "other"`)
	f("hostssl all all all cert map=known", without(func(c *Circumstances) { c.Maps = nil }), "auth.ident_file is not set")
	noSecrets := without(func(c *Circumstances) { c.Secrets = false })
	for _, method := range []string{"password", "md5", "scram-sha-256"} {
		f("host all all all "+method, all, "")
		f("host all all all "+method, noSecrets, "method "+method+" needs auth.users_file or an auth_query")
	}
	f("host all all all trust", noSecrets, "")
	f("host all all all reject", noSecrets, "")
}
