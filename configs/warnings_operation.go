package configs

import "slices"

// operation tells settings of the console, the HTTP server and the reaper that have no effect, or let more people in than
// it may seem.
func (w *warner) operation() {
	a := &w.config.Admin
	if a.Listen != "" && !isLoopback(a.Listen) {
		w.warn("admin.listen", "admin.listen %s can be reached from other machines, and asks nobody who they are: see to it that only those reach it who should", show(a.Listen))
	}
	w.noEffect(a.PProf && a.Listen == "", "admin.pprof", "admin.listen is empty")
	for _, name := range a.StatsUsers {
		if slices.Contains(a.Users, name) {
			w.warn("admin.stats_users", "admin.stats_users names %s, who may do more by admin.users", show(name))
		}
	}
	r, delay := &w.config.Reaper, table.byKey[sectionReaper]["server_check_delay_ms"]
	w.noEffect(r.ServerCheckDelayMs != delay.Default && r.ServerCheckQuery == "", delay.Path(), "reaper.server_check_query is empty")
	for i := range w.config.Databases {
		if db := &w.config.Databases[i]; len(db.Hosts) == 1 && db.TargetSessionAttrs == SessionPreferStandby {
			w.noEffect(true, entryAt(sectionDatabases, i)+".target_session_attrs", "there is one host, which prefer-standby takes whatever it is")
		}
	}
}
