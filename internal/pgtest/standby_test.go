package pgtest

import "testing"

// TestStandby: it has what its primary has, refuses to write until it is promoted, and writes then.
func TestStandby(t *testing.T) {
	t.Parallel()
	primary := Start(t)
	primary.Exec(t, "create table kept (n int)")
	standby := primary.Standby(t)
	if _, err := standby.Query("insert into kept values (1)"); err == nil {
		t.Error("a standby wrote")
	}
	if err := primary.Stop(Immediate); err != nil {
		t.Fatal(err)
	}
	standby.Promote(t)
	standby.Exec(t, "insert into kept values (1)")
}
