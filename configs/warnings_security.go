package configs

import (
	"net"
	"net/netip"
	"os"
	"strings"
)

// security tells settings of logins and TLS that have no effect, or let more people in than it may seem.
func (w *warner) security() {
	a, t, s := &w.config.Auth, &w.config.TLS, &w.config.Server
	idle := w.noEffect
	idle(a.IdentFile != "" && a.Method != AuthHBA, "auth.ident_file", "only rules of auth.hba_file refer to its maps")
	cache := table.byKey[sectionAuth]["auth_query_cache_ms"]
	idle(a.QueryCacheMs != cache.Default && !w.looksUp(), cache.Path(), "there is no auth_query")
	idle(s.ProxyProtocol == ProxyOff && len(s.ProxyProtocolFrom) > 0, "server.proxy_protocol_from", "server.proxy_protocol is off")
	for _, f := range files(w.config) {
		side, _, _ := strings.Cut(f.setting, "_")
		off := side == "tls.client" && t.ClientMode == TLSDisable || side == "tls.server" && t.ServerMode == TLSDisable
		idle(f.path != "" && off, f.setting, side+"_mode is disable")
	}
	w.openDoors()
	w.openFiles()
}

// noEffect tells a setting that has none where it is set.
func (w *warner) noEffect(set bool, setting, because string) {
	if set {
		w.warn(setting, "%s has no effect: %s", setting, because)
	}
}

// looksUp reports whether any database has an auth_query.
func (w *warner) looksUp() bool {
	for i := range w.config.Databases {
		if query, _ := w.config.AuthQuery(&w.config.Databases[i]); query != "" {
			return true
		}
	}
	return false
}

// openDoors tells methods that are safe on this machine alone.
func (w *warner) openDoors() {
	door := ""
	for _, address := range w.config.Server.Listen {
		if !isLoopback(address) {
			door = address
			break
		}
	}
	const method = "auth.method"
	switch mode := w.config.TLS.ClientMode; {
	case door == "":
	case w.config.Auth.Method == AuthTrust:
		w.warn(method, "auth.method trust lets everybody who reaches %s in as any user, without a password", show(door))
	case w.config.Auth.Method == AuthPassword && !mode.Requires():
		w.warn(method, "auth.method password makes clients send their passwords, which tls.client_mode %s does not make them encrypt: set it to require, or use scram-sha-256", mode)
	}
}

// isLoopback reports whether an address of listen can be reached from this machine alone.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// openFiles tells files with secrets that every user of the system can read.
func (w *warner) openFiles() {
	named := files(w.config)
	for i := range w.config.Databases {
		named = append(named, namedFile{entryAt(sectionDatabases, i) + ".password_file", w.config.Databases[i].PasswordFile, true})
	}
	for _, f := range named {
		if info, err := os.Stat(f.path); f.secret && f.path != "" && err == nil && info.Mode().Perm()&0o004 != 0 {
			w.warn(f.setting, "%s: %q can be read by every user of this system: take that away (chmod o=)", f.setting, f.path)
		}
	}
}
