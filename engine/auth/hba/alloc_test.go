//go:build !race

package hba

import (
	"net/netip"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
)

func TestMatchAlloc(t *testing.T) {
	rules, problems := LoadRules(memory(map[string]string{"f": `
host  /^tenant_[0-9]+$,one,two,@list  /a.*z  10.0.0.0/8  reject
hostssl sameuser "/^[a-z]{2,30}$",all samenet cert map=m
host all all all scram-sha-256
`, "list": "three four five"}), "f", configs.Place{})
	if rules == nil {
		t.Fatal(problems)
	}
	peers := []auth.Peer{
		{User: "abcz", Database: "tenant_17", Addr: netip.MustParseAddr("::ffff:10.1.2.3")},
		{User: "somebody", Database: "somebody", Addr: netip.MustParseAddr("fd00::1%eth0"), TLS: true},
		{User: "somebody", Database: "five", Addr: netip.MustParseAddr("10.1.2.3")},
		{User: "somebody", Database: "five"},
	}
	if n := testing.AllocsPerRun(200, func() {
		for i := range peers {
			_, _ = rules.Match(&peers[i])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkMatch goes through 1 000 lines to the last one.
func BenchmarkMatch(b *testing.B) {
	text := strings.Repeat("host one,two /^tenant_[0-9]+$ 10.0.0.0/8 reject\n", 999) + "host all all all md5\n"
	rules, problems := load(text)
	if rules == nil {
		b.Fatal(problems)
	}
	p := auth.Peer{User: "somebody", Database: "two", Addr: netip.MustParseAddr("10.1.2.3")}
	for b.Loop() {
		if d, _ := rules.Match(&p); d.Method != auth.MD5 {
			b.Fatal(d)
		}
	}
}
