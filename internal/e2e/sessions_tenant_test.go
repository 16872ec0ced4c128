package e2e

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"pgkinetic/internal/pgwire"
)

// canarySteps are what tenants do; each leaves the session as tenant says.
var canarySteps = []struct {
	name string
	do   func(v *tenant) error
}{
	{"set", (*tenant).stepSet},
	{"set", (*tenant).stepSet},
	{"set in a block", (*tenant).stepBlock},
	{"set taken back", (*tenant).stepTakenBack},
	{"reset", (*tenant).stepReset},
	{"prepare", (*tenant).stepPrepare},
	{"prepare", (*tenant).stepPrepare},
	{"execute", (*tenant).stepExecute},
	{"execute", (*tenant).stepExecute},
	{"unnamed in two groups", (*tenant).stepUnnamed},
	{"deallocate", (*tenant).stepDeallocate},
	{"temporary table", (*tenant).stepTempTable},
	{"advisory lock", (*tenant).stepLock},
	{"prepare by SQL", (*tenant).stepSQLPrepare},
	{"listen", (*tenant).stepListen},
	{"error", (*tenant).stepError},
	{"time-out", (*tenant).stepTimeout},
	{"cancel", (*tenant).stepCancel},
}

// choose is a setting and a value that is the tenant's own, with the value that PostgreSQL shows.
func (v *tenant) choose() (name, value, shown string) {
	v.serial++
	switch v.random.IntN(6) {
	case 0:
		schema := fmt.Sprintf("canary_%d", v.id)
		path := []string{schema, schema + ", public", schema + ", pg_catalog"}[v.random.IntN(3)]
		return "search_path", path, path
	case 1:
		role := fmt.Sprintf("canary_role_%d", v.id)
		return "role", role, role
	case 2:
		zone := zones[(v.id+v.serial)%len(zones)]
		return "TimeZone", "'" + zone + "'", zone
	case 3:
		ms := 100000 + 1000*(v.serial%50) + v.id
		if ms%1000 == 0 {
			return "statement_timeout", fmt.Sprint(ms), fmt.Sprint(ms/1000, "s")
		}
		return "statement_timeout", fmt.Sprint(ms), fmt.Sprint(ms, "ms")
	case 4:
		app := fmt.Sprintf("tenant %d name %d", v.id, v.serial)
		return "application_name", "'" + app + "'", app
	}
	kb := 1024*(5+v.id) + 1 + v.serial%1000
	return "work_mem", fmt.Sprint(kb), fmt.Sprint(kb, "kB")
}

func (v *tenant) stepSet() error {
	name, value, shown := v.choose()
	v.settings[name] = shown
	sql := fmt.Sprintf("SET %s = %s", name, value)
	if v.random.IntN(2) == 0 {
		return v.exec(sql)
	}
	return v.want("", pgwire.Parse("", sql), invoke(""), pgwire.Sync())
}

func (v *tenant) stepBlock() error {
	name, value, shown := v.choose()
	local, localValue, _ := v.choose()
	block := []string{"BEGIN", fmt.Sprintf("SET LOCAL %s = %s", local, localValue), "SAVEPOINT s", fmt.Sprintf("SET %s = %s", name, value)}
	switch v.random.IntN(3) {
	case 0:
		block = append(block, "RELEASE s", "COMMIT")
		v.settings[name] = shown
	case 1:
		block = append(block, "ROLLBACK TO s", "COMMIT")
	case 2:
		block = append(block, "ROLLBACK")
	}
	for _, sql := range block {
		if err := v.exec(sql); err != nil {
			return err
		}
	}
	return nil
}

func (v *tenant) stepTakenBack() error {
	name, value, _ := v.choose()
	sql := fmt.Sprintf("SET %s = %s", name, value)
	if v.random.IntN(2) == 0 {
		return v.fails("22012", pgwire.Query(sql+"; SELECT 1/0"))
	}
	return v.fails("22012", pgwire.Parse("", sql), invoke(""), pgwire.Parse("", "SELECT 1/0"), invoke(""), pgwire.Sync())
}

func (v *tenant) stepReset() error {
	switch v.random.IntN(4) {
	case 0:
		role := v.settings["role"] // RESET ALL leaves the role
		v.settings = maps.Clone(v.atStart)
		v.settings["role"] = role
		return v.exec("RESET ALL")
	case 1:
		v.settings = maps.Clone(v.atStart)
		clear(v.prepared)
		v.channel = ""
		return v.exec("DISCARD ALL")
	case 2:
		v.settings["role"] = v.atStart["role"]
		return v.exec("RESET ROLE")
	}
	name := []string{"search_path", "TimeZone", "statement_timeout", "work_mem", "application_name"}[v.random.IntN(5)]
	v.settings[name] = v.atStart[name]
	return v.exec("RESET " + name)
}

// name is one of the few names that all tenants use.
func (v *tenant) name() string { return []string{"a", "b", "c"}[v.random.IntN(3)] }

func (v *tenant) stepPrepare() error {
	name := v.name()
	v.serial++
	answer := fmt.Sprintf("tenant %d statement %d", v.id, v.serial)
	parse := pgwire.Parse(name, fmt.Sprintf("SELECT '%s', $1::text, id FROM who", answer))
	if _, exists := v.prepared[name]; exists {
		if v.random.IntN(2) == 0 {
			return v.fails("42P05", parse, pgwire.Sync())
		}
		v.prepared[name] = answer
		return v.want(fmt.Sprintf("%s|x|%d", answer, v.id), pgwire.Close('S', name), parse, invoke(name, "x"), pgwire.Sync())
	}
	v.prepared[name] = answer
	return v.want("", parse, pgwire.Describe('S', name), pgwire.Sync())
}

func (v *tenant) stepExecute() error {
	name := v.name()
	answer, exists := v.prepared[name]
	if !exists {
		return v.fails("26000", invoke(name, "x"), pgwire.Sync())
	}
	v.serial++
	nonce := fmt.Sprint("nonce ", v.serial)
	return v.want(fmt.Sprintf("%s|%s|%d", answer, nonce, v.id), pgwire.Describe('S', name), invoke(name, nonce), pgwire.Sync())
}

func (v *tenant) stepUnnamed() error {
	v.serial++
	answer := fmt.Sprintf("tenant %d unnamed %d", v.id, v.serial)
	if err := v.want("", pgwire.Parse("", "SELECT '"+answer+"', id FROM who"), pgwire.Describe('S', ""), pgwire.Sync()); err != nil {
		return err
	}
	return v.want(fmt.Sprintf("%s|%d", answer, v.id), invoke(""), pgwire.Sync())
}

func (v *tenant) stepDeallocate() error {
	name := v.name()
	if v.random.IntN(3) == 0 {
		clear(v.prepared)
		return v.exec("DEALLOCATE ALL")
	}
	_, exists := v.prepared[name]
	delete(v.prepared, name)
	if !exists {
		return v.fails("26000", pgwire.Query("DEALLOCATE "+name))
	}
	return v.want("", pgwire.Parse("", "DEALLOCATE "+name), invoke(""), pgwire.Sync())
}

// pin does what keeps a backend; it is false when all places for that are taken.
func (v *tenant) pin(sql string) (bool, error) {
	all, err := v.send(1, pgwire.Query(sql))
	switch {
	case err != nil:
		return false, err
	case errorCode(all) == "53300":
		return false, nil
	case errorCode(all) != "":
		return false, fmt.Errorf("%s: got\n%s", sql, pgwire.Transcript(all))
	}
	return true, nil
}

func (v *tenant) stepTempTable() error {
	if pinned, err := v.pin("CREATE TEMP TABLE canary(id int)"); !pinned {
		return err
	}
	if err := v.exec(fmt.Sprintf("INSERT INTO canary VALUES (%d)", v.id)); err != nil {
		return err
	}
	if err := v.look(); err != nil {
		return err
	}
	if err := v.want(fmt.Sprintf("%d|1", v.id), pgwire.Query("SELECT min(id), count(*) FROM canary")); err != nil {
		return err
	}
	return v.exec("DISCARD TEMP")
}

func (v *tenant) stepLock() error {
	all, err := v.send(1, pgwire.Query(fmt.Sprintf("SELECT pg_try_advisory_lock(%d, 4)", v.id)))
	if err != nil || errorCode(all) == "53300" {
		return err
	}
	if row(all) != "t" {
		return fmt.Errorf("the lock is held, got\n%s", pgwire.Transcript(all))
	}
	if err := v.want("1", pgwire.Query(fmt.Sprintf("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = %d AND objid = 4 AND pid = pg_backend_pid()", v.id))); err != nil {
		return err
	}
	if v.random.IntN(2) == 0 {
		if err := v.want("t", pgwire.Query(fmt.Sprintf("SELECT pg_advisory_unlock(%d, 4)", v.id))); err != nil {
			return err
		}
	}
	return v.want("", pgwire.Query("SELECT pg_advisory_unlock_all()"))
}

func (v *tenant) stepSQLPrepare() error {
	if pinned, err := v.pin(fmt.Sprintf("PREPARE canary AS SELECT 'tenant %d', id FROM who", v.id)); !pinned {
		return err
	}
	if err := v.want(fmt.Sprintf("tenant %d|%d", v.id, v.id), pgwire.Query("EXECUTE canary")); err != nil {
		return err
	}
	return v.exec("DEALLOCATE canary")
}

// stepListen listens, has itself told, and sometimes goes on listening.
func (v *tenant) stepListen() error {
	channel := fmt.Sprintf("canary_channel_%d", v.id)
	if v.channel == "" {
		if err := v.exec("LISTEN " + channel); err != nil {
			return err
		}
		v.channel = channel
	}
	v.serial++
	payload := fmt.Sprint("payload ", v.serial)
	if err := v.exec(fmt.Sprintf("NOTIFY %s, '%s'", channel, payload)); err != nil {
		return err
	}
	for deadline := time.Now().Add(20 * time.Second); !slices.Contains(v.pending, channel+"="+payload); {
		m, err := v.c.Read()
		switch {
		case err != nil || time.Now().After(deadline):
			return fmt.Errorf("%q does not come: %w", payload, err)
		case m.Type != 'A':
			return fmt.Errorf("%s while idle", m)
		}
		if err := v.heard(m); err != nil {
			return err
		}
	}
	v.pending = nil
	if v.random.IntN(2) == 0 {
		v.channel = ""
		return v.exec([]string{"UNLISTEN *", "UNLISTEN " + channel}[v.random.IntN(2)])
	}
	return nil
}

func (v *tenant) stepError() error {
	switch v.random.IntN(4) {
	case 0:
		return v.fails("22012", pgwire.Query("SELECT 1/0"))
	case 1:
		return v.fails("42601", pgwire.Parse("broken", "SELEC"), invoke("broken"), pgwire.Sync())
	case 2:
		return v.fails("42P01", pgwire.Query(fmt.Sprintf("SELECT * FROM canary_%d.nothing", v.id)))
	}
	all, err := v.send(3, pgwire.Query("BEGIN"), pgwire.Query("SELECT 1/0"), pgwire.Query("COMMIT"))
	if err == nil && errorCode(all) != "22012" {
		err = fmt.Errorf("got\n%s", pgwire.Transcript(all))
	}
	return err
}

func (v *tenant) stepTimeout() error {
	all, err := v.send(3, pgwire.Query("BEGIN; SET LOCAL statement_timeout = 5"), pgwire.Query("SELECT pg_sleep(10)"), pgwire.Query("ROLLBACK"))
	if err == nil && errorCode(all) != "57014" {
		err = fmt.Errorf("got\n%s", pgwire.Transcript(all))
	}
	return err
}

// stepCancel cancels a query of its own; if the cancel comes first the query just ends.
func (v *tenant) stepCancel() error {
	if err := v.c.Send(pgwire.Query("SELECT pg_sleep(0.02)")); err != nil {
		return err
	}
	if err := pgwire.Cancel("tcp", v.c.Net.RemoteAddr().String(), v.c.PID, v.c.Key); err != nil {
		return err
	}
	all, err := v.send(1)
	if err == nil && errorCode(all) != "57014" && errorCode(all) != "" {
		err = fmt.Errorf("got\n%s", pgwire.Transcript(all))
	}
	return err
}
