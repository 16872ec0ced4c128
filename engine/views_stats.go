package engine

// What clients of each database have sent, got and waited for (SHOW STATS).

import (
	"maps"
	"slices"

	"pgkinetic/admin/view"
)

// Stats shows every database name that clients have asked for, in the order of
// names. Any goroutine.
func (e *Engine) Stats() []view.Stats {
	type sums struct{ total, average trafficTotals }
	by := map[string]*sums{}
	for _, k := range e.registry.traffic.sums() {
		s := cached(by, k.tenant.Database, func() *sums { return &sums{} })
		s.total.plus(&k.total)
		s.average.plus(&k.period)
	}
	var rows []view.Stats
	for _, name := range slices.Sorted(maps.Keys(by)) {
		rows = append(rows, view.Stats{Database: name, Total: by[name].total.row(), Average: by[name].average.averages()})
	}
	return rows
}

const us = 1000

// row gives the sums as a view has them.
func (n *trafficTotals) row() view.Traffic {
	return view.Traffic{
		ServerAssignmentCount: n[trafficAssigned], XactCount: n[trafficXacts], QueryCount: n[trafficQueries],
		Received: n[trafficReceived], Sent: n[trafficSent],
		XactTimeUs: n[trafficXactTime] / us, QueryTimeUs: n[trafficQueryTime] / us, WaitTimeUs: n[trafficWaitTime] / us,
		ClientParseCount: n[trafficParses], ServerParseCount: n[trafficServerParses], BindCount: n[trafficBinds],
	}
}

// averages gives those of a period over which n was summed.
func (n *trafficTotals) averages() view.Traffic {
	var perSecond trafficTotals
	for i := range n {
		perSecond[i] = n[i] / view.PeriodSeconds
	}
	row := perSecond.row()
	row.XactTimeUs = n[trafficXactTime] / us / max(n[trafficXacts], 1)
	row.QueryTimeUs = n[trafficQueryTime] / us / max(n[trafficQueries], 1)
	return row
}
