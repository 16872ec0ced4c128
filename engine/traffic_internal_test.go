package engine

import (
	"fmt"
	"testing"

	"pgkinetic/admin/view"
	"pgkinetic/admission/routing"
)

func everything(t *trafficTable) (n trafficTotals) {
	for _, k := range t.sums() {
		n.plus(&k.total)
	}
	return n
}

// TestTalliesAreBounded: a flood of names keeps a bounded number of tallies, and forgets nothing that was counted: who has
// clients keeps its own, who comes too late counts under "other" of its database, or of all.
func TestTalliesAreBounded(t *testing.T) {
	table := newTrafficTable(2)
	name := func(i int) routing.Tenant { return routing.Tenant{Database: fmt.Sprint("d", i), User: "u"} }
	var counted uint64
	count := func(k *tally) {
		k.on(int(counted % 2)).inc(trafficQueries)
		counted++
	}
	held := table.join(name(0))
	count(held)
	for i := 1; i < 2*talliesMax; i++ { // each leaves at once
		k := table.join(name(i))
		count(k)
		table.leave(k)
		if len(table.tallies) > talliesMax {
			t.Fatalf("%d tallies", len(table.tallies))
		}
	}
	if table.join(name(0)) != held {
		t.Error("who has a client has lost its tally")
	}
	if n := everything(table); n[trafficQueries] != counted {
		t.Errorf("%d counted, the sums tell %d", counted, n[trafficQueries])
	}
	for i := range 3 * talliesMax { // all stay
		count(table.join(name(i)))
	}
	if late := table.join(routing.Tenant{Database: "late", User: "u"}); late != table.other {
		t.Errorf("too many databases: %+v", late.tenant)
	}
	if k := table.join(routing.Tenant{Database: name(2*talliesMax - 1).Database, User: "v"}); k.tenant.User != otherLabel || k == table.other {
		t.Errorf("too many users: %+v", k.tenant)
	}
	labels := 0
	for _, k := range table.sums() {
		labels += number(k.label)
	}
	if n := everything(table); n[trafficQueries] != counted || len(table.tallies) > 2*talliesMax || labels != tenantLabels {
		t.Errorf("%d counted, %+v, %d tallies, %d labels", counted, n, len(table.tallies), labels)
	}
}

// TestAverages are of the last full period, also of a tally that has made room meanwhile.
func TestAverages(t *testing.T) {
	e := idleEngine(t)
	table := e.registry.traffic
	table.endPeriod() // the start
	k := table.join(routing.Tenant{Database: "d", User: "u"})
	k.on(0).add(trafficQueries, 3*view.PeriodSeconds)
	k.on(0).add(trafficXacts, view.PeriodSeconds)
	k.on(0).add(trafficQueryTime, 3*view.PeriodSeconds*7*us)
	k.on(0).add(trafficXactTime, view.PeriodSeconds*90*us)
	k.on(0).add(trafficWaitTime, view.PeriodSeconds*5*us)
	for i, sum := range []int{trafficAssigned, trafficReceived, trafficSent, trafficParses, trafficServerParses, trafficBinds} {
		k.on(0).add(sum, view.PeriodSeconds*uint64(11+i))
	}
	if row := e.Stats()[0]; row.Average != (view.Traffic{}) || row.Total.QueryTimeUs != 3*view.PeriodSeconds*7 {
		t.Errorf("before the first period has ended: %+v", row)
	}
	table.endPeriod()
	want := view.Traffic{
		QueryCount: 3, XactCount: 1, QueryTimeUs: 7, XactTimeUs: 90, WaitTimeUs: 5,
		ServerAssignmentCount: 11, Received: 12, Sent: 13, ClientParseCount: 14, ServerParseCount: 15, BindCount: 16,
	}
	k.on(0).add(trafficQueries, 100) // of the next period
	if row := e.Stats()[0]; row.Database != "d" || row.Average != want {
		t.Errorf("%+v, want %+v", row.Average, want)
	}
	table.leave(k)
	table.makeRoom()
	if row := e.Stats()[0]; row.Database != otherLabel || row.Average != want || row.Total.QueryCount != 3*view.PeriodSeconds+100 {
		t.Errorf("made room: %+v", row)
	}
	table.endPeriod()
	table.endPeriod()
	if row := e.Stats()[0]; row.Average != (view.Traffic{}) {
		t.Errorf("nothing happened in the last period: %+v", row.Average)
	}
}
