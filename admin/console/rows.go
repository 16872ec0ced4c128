package console

import (
	"iter"
	"reflect"

	"pgkinetic/admin/view"
)

// Rows of views that PgBouncer lays out in another way than the pooler counts.

// statsRow is a row of SHOW STATS.
type statsRow struct {
	Database                   string `col:"database"`
	TotalServerAssignmentCount uint64 `col:"total_server_assignment_count"` // times that a server was given to a client
	TotalXactCount             uint64 `col:"total_xact_count"`              // transactions
	TotalQueryCount            uint64 `col:"total_query_count"`             // queries
	TotalReceived              uint64 `col:"total_received"`                // bytes from clients
	TotalSent                  uint64 `col:"total_sent"`                    // bytes to clients
	TotalXactTime              uint64 `col:"total_xact_time"`               // µs that servers were in transactions
	TotalQueryTime             uint64 `col:"total_query_time"`              // µs that servers ran queries
	TotalWaitTime              uint64 `col:"total_wait_time"`               // µs that clients waited for a server
	TotalClientParseCount      uint64 `col:"total_client_parse_count"`      // statements that clients have prepared
	TotalServerParseCount      uint64 `col:"total_server_parse_count"`      // statements prepared on servers for them
	TotalBindCount             uint64 `col:"total_bind_count"`              // times that one was made ready to run
	AvgServerAssignmentCount   uint64 `col:"avg_server_assignment_count"`   // per second
	AvgXactCount               uint64 `col:"avg_xact_count"`                // per second
	AvgQueryCount              uint64 `col:"avg_query_count"`               // per second
	AvgRecv                    uint64 `col:"avg_recv"`                      // bytes per second
	AvgSent                    uint64 `col:"avg_sent"`                      // bytes per second
	AvgXactTime                uint64 `col:"avg_xact_time"`                 // µs per transaction
	AvgQueryTime               uint64 `col:"avg_query_time"`                // µs per query
	AvgWaitTime                uint64 `col:"avg_wait_time"`                 // µs per second
	AvgClientParseCount        uint64 `col:"avg_client_parse_count"`        // per second
	AvgServerParseCount        uint64 `col:"avg_server_parse_count"`        // per second
	AvgBindCount               uint64 `col:"avg_bind_count"`                // per second
}

// totalsRow is a row of SHOW STATS_TOTALS.
type totalsRow struct {
	Database              string `col:"database"`
	ServerAssignmentCount uint64 `col:"server_assignment_count"` // times that a server was given to a client
	XactCount             uint64 `col:"xact_count"`              // transactions
	QueryCount            uint64 `col:"query_count"`             // queries
	BytesReceived         uint64 `col:"bytes_received"`          // bytes from clients
	BytesSent             uint64 `col:"bytes_sent"`              // bytes to clients
	XactTime              uint64 `col:"xact_time"`               // µs that servers were in transactions
	QueryTime             uint64 `col:"query_time"`              // µs that servers ran queries
	WaitTime              uint64 `col:"wait_time"`               // µs that clients waited for a server
	ClientParseCount      uint64 `col:"client_parse_count"`      // statements that clients have prepared
	ServerParseCount      uint64 `col:"server_parse_count"`      // statements prepared on servers for them
	BindCount             uint64 `col:"bind_count"`              // times that one was made ready to run
}

// averagesRow is a row of SHOW STATS_AVERAGES. That three columns begin with avg_
// is PgBouncer's.
type averagesRow struct {
	Database              string `col:"database"`
	ServerAssignmentCount uint64 `col:"server_assignment_count"` // per second
	XactCount             uint64 `col:"xact_count"`              // per second
	QueryCount            uint64 `col:"query_count"`             // per second
	BytesReceived         uint64 `col:"bytes_received"`          // bytes per second
	BytesSent             uint64 `col:"bytes_sent"`              // bytes per second
	XactTime              uint64 `col:"xact_time"`               // µs per transaction
	QueryTime             uint64 `col:"query_time"`              // µs per query
	WaitTime              uint64 `col:"wait_time"`               // µs per second
	ClientParseCount      uint64 `col:"avg_client_parse_count"`  // per second
	ServerParseCount      uint64 `col:"avg_server_parse_count"`  // per second
	BindCount             uint64 `col:"avg_bind_count"`          // per second
}

// totalRow is a row of SHOW TOTALS.
type totalRow struct {
	Name  string `col:"name"`
	Value uint64 `col:"value"`
}

// stateRow is a row of SHOW STATE.
type stateRow struct {
	Key   string `col:"key"`
	Value string `col:"value"`
}

// versionRow is the row of SHOW VERSION.
type versionRow struct {
	Version string `col:"version"`
}

// configRow is a row of SHOW CONFIG: exporters insist on these four columns.
type configRow struct {
	Key        string `col:"key"`
	Value      string `col:"value"`
	Default    string `col:"default"`
	Changeable string `col:"changeable"`
}

func stats(s *session) []statsRow {
	return each(s.Control.Stats(), func(r view.Stats) statsRow {
		t, a := r.Total, r.Average
		return statsRow{
			r.Database,
			t.ServerAssignmentCount, t.XactCount, t.QueryCount, t.Received, t.Sent, t.XactTimeUs, t.QueryTimeUs, t.WaitTimeUs,
			t.ClientParseCount, t.ServerParseCount, t.BindCount,
			a.ServerAssignmentCount, a.XactCount, a.QueryCount, a.Received, a.Sent, a.XactTimeUs, a.QueryTimeUs, a.WaitTimeUs,
			a.ClientParseCount, a.ServerParseCount, a.BindCount,
		}
	})
}

func statsTotals(s *session) []totalsRow {
	return each(s.Control.Stats(), func(r view.Stats) totalsRow { return trafficRow(r.Database, r.Total) })
}

func statsAverages(s *session) []averagesRow {
	return each(s.Control.Stats(), func(r view.Stats) averagesRow { return averagesRow(trafficRow(r.Database, r.Average)) })
}

func trafficRow(database string, t view.Traffic) totalsRow {
	return totalsRow{
		database,
		t.ServerAssignmentCount, t.XactCount, t.QueryCount, t.Received, t.Sent, t.XactTimeUs, t.QueryTimeUs, t.WaitTimeUs,
		t.ClientParseCount, t.ServerParseCount, t.BindCount,
	}
}

// totals sums up the databases. An average time is that of a transaction or query,
// whichever database it was for, so that it is weighted by their numbers.
func totals(s *session) []totalRow {
	var total, average view.Traffic
	var xactTime, queryTime uint64
	for _, r := range s.Control.Stats() {
		addTraffic(&total, r.Total)
		addTraffic(&average, r.Average)
		xactTime += r.Average.XactTimeUs * r.Average.XactCount
		queryTime += r.Average.QueryTimeUs * r.Average.QueryCount
	}
	average.XactTimeUs = xactTime / max(average.XactCount, 1)
	average.QueryTimeUs = queryTime / max(average.QueryCount, 1)
	return append(totalRows("total_", total), totalRows("avg_", average)...)
}

func totalRows(prefix string, t view.Traffic) []totalRow {
	return []totalRow{
		{prefix + "server_assignment_count", t.ServerAssignmentCount},
		{prefix + "xact_count", t.XactCount},
		{prefix + "query_count", t.QueryCount},
		{prefix + "client_bytes", t.Received},
		{prefix + "server_bytes", t.Sent},
		{prefix + "xact_time", t.XactTimeUs},
		{prefix + "query_time", t.QueryTimeUs},
		{prefix + "wait_time", t.WaitTimeUs},
		{prefix + "ps_client_parse_count", t.ClientParseCount},
		{prefix + "ps_server_parse_count", t.ServerParseCount},
		{prefix + "ps_bind_count", t.BindCount},
	}
}

// addTraffic adds every counter of t to sum.
func addTraffic(sum *view.Traffic, t view.Traffic) {
	into, from := reflect.ValueOf(sum).Elem(), reflect.ValueOf(t)
	for i := range from.NumField() {
		into.Field(i).SetUint(into.Field(i).Uint() + from.Field(i).Uint())
	}
}

func activeSockets(s *session) iter.Seq[view.Socket] {
	return func(yield func(view.Socket) bool) {
		for r := range s.Control.Sockets() {
			if (r.PktAvail > 0 || r.PktRemain > 0 || r.SendAvail > 0 || r.SendRemain > 0) && !yield(r) {
				return
			}
		}
	}
}

func config(s *session) []configRow {
	return each(s.Control.Config(), func(r view.Setting) configRow { return configRow{r.Key, r.Value, r.Default, r.Changeable} })
}

func version(s *session) []versionRow { return []versionRow{{"pg-kinetic " + s.Version}} }

func state(s *session) []stateRow {
	yes := map[bool]string{true: "yes", false: "no"}
	active, paused, suspended := s.Control.State()
	return []stateRow{{"active", yes[active]}, {"paused", yes[paused]}, {"suspended", yes[suspended]}}
}

func each[T, R any](rows []T, f func(T) R) []R {
	all := make([]R, len(rows))
	for i, r := range rows {
		all[i] = f(r)
	}
	return all
}
