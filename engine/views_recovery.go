package engine

// What is to be seen of recoveries (SHOW RECOVERY).

import (
	"pgkinetic/admin/view"
)

// recoveryCounts gives how many recoveries have ended in which way, for each trigger
// that has had one.
func (e *Engine) recoveryCounts() (rows []view.Recovery) {
	for trigger := range triggers {
		for o, outcome := range recoveryNames {
			if n := e.count(func(c *counters) *counter { return &c.recoveries[trigger][o] }); n > 0 {
				rows = append(rows, view.Recovery{Trigger: triggerName(trigger), Outcome: outcome, Count: n})
			}
		}
	}
	return rows
}

// Recovery shows how recoveries have ended, and those under way. Any goroutine but a
// loop's.
func (e *Engine) Recovery() []view.Recovery {
	rows := e.recoveryCounts()
	under := map[closeReason]int64{}
	for trigger := range askServers(e, func(s *server) (closeReason, bool) { return s.trigger, s.state == serverRecovering }) {
		under[trigger]++
	}
	for trigger := range triggers {
		if n := under[trigger]; n > 0 {
			rows = append(rows, view.Recovery{Trigger: triggerName(trigger), Current: n})
		}
	}
	return rows
}
