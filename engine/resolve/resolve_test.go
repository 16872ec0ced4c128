package resolve

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"pgkinetic/internal/testdns"
)

func lookup(t *testing.T, s *testdns.Server, name string) (*Answer, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	return (&Resolver{Server: s.Addr()}).Lookup(ctx, name)
}

// TestLookup: addresses of both kinds, and the least TTL, by UDP and by TCP, of names and of aliases.
func TestLookup(t *testing.T) {
	t.Parallel()
	s := testdns.Start(t)
	for name, z := range map[string]testdns.Zone{
		"plain.test": {Addrs: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, TTL: 7},
		"alias.test": {Addrs: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, TTL: 7, Alias: "other.test"},
		"large.test": {Addrs: []string{"10.0.0.1", "10.0.0.2", "fd00::1"}, TTL: 7, ByTCP: true},
	} {
		s.Set(name, z)
		a, err := lookup(t, s, name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		slices.Sort(a.Addresses)
		if !slices.Equal(a.Addresses, []string{"10.0.0.1", "10.0.0.2", "fd00::1"}) || a.TTL != 7*time.Second || !a.Timed || a.Partial {
			t.Errorf("%s: %+v", name, a)
		}
	}
}

// TestPartialAnswer: a name server that fails to tell the IPv6 addresses has not said that there are none.
func TestPartialAnswer(t *testing.T) {
	t.Parallel()
	s := testdns.Start(t)
	s.Set("half.test", testdns.Zone{Addrs: []string{"10.0.0.1"}, TTL: 7, FailV6: true})
	a, err := lookup(t, s, "half.test")
	if err != nil || !a.Partial || a.TTL != 7*time.Second || !slices.Equal(a.Addresses, []string{"10.0.0.1"}) {
		t.Errorf("%+v, %v", a, err)
	}
}

// TestNoAnswer: no such name, a failure, silence.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	s := testdns.Start(t)
	s.Set("failing.test", testdns.Zone{Fail: true})
	s.Set("silent.test", testdns.Zone{Silent: true})
	var e *net.DNSError
	if _, err := lookup(t, s, "nobody.test"); !errors.As(err, &e) || !e.IsNotFound {
		t.Errorf("unknown: %v", err)
	}
	if _, err := lookup(t, s, "failing.test"); !errors.As(err, &e) || e.IsNotFound {
		t.Errorf("failing: %v", err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	begin := time.Now()
	if _, err := (&Resolver{Server: s.Addr()}).Lookup(ctx, "silent.test"); err == nil || time.Since(begin) > 3*time.Second {
		t.Errorf("silent: %v after %v", err, time.Since(begin))
	}
}

// TestWithoutNameServer: what /etc/hosts tells holds for no known time.
func TestWithoutNameServer(t *testing.T) {
	t.Parallel()
	a, err := (&Resolver{Server: testdns.Start(t).Addr()}).Lookup(t.Context(), "localhost")
	if err != nil || a.Timed || len(a.Addresses) == 0 {
		t.Errorf("%+v, %v", a, err)
	}
}
