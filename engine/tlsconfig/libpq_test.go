package tlsconfig

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"pgkinetic/configs"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/testcert"
)

// standIn answers as PostgreSQL up to the startup packet, which it refuses by an error that says whether it came encrypted.
func standIn(t *testing.T, cert tls.Certificate) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go refuse(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		}
	}()
	addr, _ := l.Addr().(*net.TCPAddr)
	return addr
}

func refuse(c net.Conn, config *tls.Config) {
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	const sslRequest = "\x00\x00\x00\x08\x04\xd2\x16\x2f"
	head, how := make([]byte, len(sslRequest)), "in clear"
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	if string(head) == sslRequest {
		if _, err := c.Write([]byte{'S'}); err != nil {
			return
		}
		c, how = tls.Server(c, config), "encrypted"
		if _, err := io.ReadFull(c, head); err != nil { // the handshake included
			return
		}
	}
	body := "SFATAL\x00VFATAL\x00C28000\x00M" + how + "\x00\x00"
	_, _ = c.Write(append([]byte{'E', 0, 0, 0, byte(4 + len(body))}, body...))
}

// psqlTakes says whether psql sends its startup packet over TLS.
func psqlTakes(t *testing.T, bin string, at *net.TCPAddr, host string, mode configs.TLSMode, ca string) bool {
	t.Helper()
	if ca == "" {
		ca = filepath.Join(filepath.Dir(missing(t)), "none")
	}
	cmd := exec.Command(filepath.Join(bin, "psql"), fmt.Sprintf(
		"host='%s' hostaddr=127.0.0.1 port=%d user=u dbname=d sslmode=%s sslrootcert='%s' sslcert=/nonexistent gssencmode=disable connect_timeout=20", host, at.Port, mode, ca), "-Xc", "")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "LC_ALL=C")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("psql has logged in: %s", out)
	}
	encrypted := strings.Contains(string(out), "FATAL:  encrypted")
	if !encrypted && !strings.Contains(string(out), "certificate") && !strings.Contains(string(out), "SSL error") {
		t.Errorf("psql, %s: %s", mode, out)
	}
	return encrypted
}

// psql, which is libpq, takes and refuses the same certificates as we do.
func TestServerModesOfLibpq(t *testing.T) {
	bin, err := pgtest.Programs()
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command(filepath.Join(bin, "psql"), "--version").Output()
	if err != nil {
		t.Fatal(err)
	}
	var major int
	if _, err := fmt.Sscanf(string(version), "psql (PostgreSQL) %d", &major); err != nil {
		t.Fatalf("%s: %v", version, err)
	}
	authority := testcert.Authority("authority")
	caFile, _ := write(t, authority)
	type trial struct {
		mode configs.TLSMode
		ca   string
	}
	var running sync.WaitGroup
	places := make(chan struct{}, 4)
	for _, c := range serverCases(authority) {
		if net.ParseIP(c.host) != nil && major < 15 {
			continue // libpq looks at addresses in certificates since 15
		}
		trials := []trial{{configs.TLSVerifyFull, caFile}}
		if !c.chain || c.what == "good" {
			trials = append(trials, trial{configs.TLSVerifyCA, caFile}, trial{configs.TLSRequire, caFile}, trial{configs.TLSRequire, ""}, trial{configs.TLSPrefer, caFile})
		}
		at := standIn(t, c.cert.TLS())
		for _, trial := range trials {
			places <- struct{}{}
			running.Go(func() {
				defer func() { <-places }()
				if got, want := psqlTakes(t, bin, at, c.host, trial.mode, trial.ca), c.taken(trial.mode, trial.ca != ""); got != want {
					t.Errorf("%s, authorities %q, %s for %s: psql takes it: %v, we: %v", trial.mode, trial.ca, c.what, c.host, got, want)
				}
			})
		}
	}
	running.Wait()
}
