package metrics

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/metricsql"
	dto "github.com/prometheus/client_model/go"

	"pgkinetic/admin/view"
)

// known is a series that queries may name: its labels, whether it is one to take the rate of, and the values that a
// label can have where they are fixed.
type known struct {
	labels  []string
	counter bool
	values  map[string][]string
}

// target are labels that Prometheus adds.
var target = []string{"instance", "job"}

// series are those of the table, those of the process, and Prometheus's own.
func series(t *testing.T) map[string]known {
	all := map[string]known{"up": {labels: target}}
	for name, f := range exposition(t, &view.Metrics{}) {
		if !strings.HasPrefix(name, "pg_kinetic_") {
			all[name] = known{labels: target, counter: f.GetType() == dto.MetricType_COUNTER}
		}
	}
	for _, m := range Table {
		k := known{labels: slices.Concat(m.Labels, target), counter: m.Type != Gauge, values: map[string][]string{}}
		if values := valuesOf(m); values != nil {
			k.values[m.Labels[len(m.Labels)-1]] = values
		}
		if m.Type != Histogram {
			all[m.Name] = k
			continue
		}
		all[m.Name+"_sum"], all[m.Name+"_count"] = k, k
		k.labels = append(slices.Clone(k.labels), "le")
		all[m.Name+"_bucket"] = k
	}
	return all
}

// valuesOf reads the values of the last label from a help that ends in a list of words behind a colon.
func valuesOf(m Metric) (values []string) {
	_, list, _ := strings.Cut(m.Help, ": ")
	for word := range strings.SplitSeq(strings.TrimSuffix(list, "."), ", ") {
		word, _, _ = strings.Cut(word, " (")
		if !regexp.MustCompile(`^[a-z_]+$`).MatchString(word) {
			return nil
		}
		values = append(values, word)
	}
	return values
}

// judge says what is wrong with a query, and which labels its results have.
type judge struct {
	series   map[string]known
	problems []string
	rated    map[metricsql.Expr]bool // what stands in rate and increase
	names    map[string]bool         // of the series that it has met
}

func (j *judge) problem(format string, args ...any) {
	j.problems = append(j.problems, fmt.Sprintf(format, args...))
}

// query reads a query; a panel's own variables are given values first.
func (j *judge) query(text string) (labels []string) {
	e, err := metricsql.Parse(strings.ReplaceAll(text, "$__rate_interval", "5m"))
	if err != nil {
		j.problem("%s: %v", text, err)
		return nil
	}
	return j.labels(e)
}

// functions are those that Prometheus has and the files use.
var functions = []string{"rate", "increase", "changes", "avg_over_time", "max_over_time", "histogram_quantile", "vector"}

// labels gives the labels of what an expression yields.
func (j *judge) labels(e metricsql.Expr) []string {
	switch e := e.(type) {
	case *metricsql.MetricExpr:
		return j.metric(e)
	case *metricsql.RollupExpr:
		return j.labels(e.Expr)
	case *metricsql.FuncExpr:
		return j.function(e)
	case *metricsql.AggrFuncExpr:
		return j.aggregate(e)
	case *metricsql.BinaryOpExpr:
		left, right := j.labels(e.Left), j.labels(e.Right)
		for _, name := range e.GroupModifier.Args {
			if !slices.Contains(left, name) || !slices.Contains(right, name) {
				j.problem("%s(%s): a side has no such label", e.GroupModifier.Op, name)
			}
		}
		return left
	case *metricsql.NumberExpr:
		return nil
	}
	j.problem("%T is not understood", e)
	return nil
}

func (j *judge) function(e *metricsql.FuncExpr) (labels []string) {
	if !slices.Contains(functions, e.Name) {
		j.problem("%s is no function", e.Name)
	}
	for _, arg := range e.Args {
		if r, ok := arg.(*metricsql.RollupExpr); ok && (e.Name == "rate" || e.Name == "increase") {
			j.rated[r.Expr] = true
		}
		labels = j.labels(arg)
	}
	if e.Name == "histogram_quantile" && !slices.Contains(labels, "le") {
		j.problem("a quantile without le")
	}
	return slices.DeleteFunc(slices.Clone(labels), func(name string) bool { return e.Name == "histogram_quantile" && name == "le" })
}

func (j *judge) aggregate(e *metricsql.AggrFuncExpr) (labels []string) {
	if !slices.Contains([]string{"sum", "max", "min", "count", "topk"}, e.Name) || e.Limit > 0 || e.Modifier.Op == "without" {
		j.problem("%s is not understood", e.AppendString(nil))
	}
	for _, arg := range e.Args {
		labels = j.labels(arg)
	}
	for _, name := range e.Modifier.Args {
		if !slices.Contains(labels, name) {
			j.problem("by %s: there is no such label", name)
		}
	}
	if e.Name == "topk" {
		return labels
	}
	return e.Modifier.Args
}

func (j *judge) metric(e *metricsql.MetricExpr) []string {
	var name string
	for _, filters := range e.LabelFilterss {
		for _, f := range filters {
			if f.Label == "__name__" {
				name = f.Value
			} else {
				j.filter(name, f)
			}
		}
	}
	k, ok := j.series[name]
	if !ok {
		j.problem("there is no metric %q", name)
	}
	if ok && k.counter != j.rated[e] {
		j.problem("%s: a rate is taken of counters, and of nothing else", name)
	}
	j.names[name] = true
	return k.labels
}

func (j *judge) filter(name string, f metricsql.LabelFilter) {
	k := j.series[name]
	if !slices.Contains(k.labels, f.Label) {
		j.problem("%s has no label %s", name, f.Label)
	}
	if k.values[f.Label] == nil || strings.HasPrefix(f.Value, "$") {
		return
	}
	for value := range strings.SplitSeq(f.Value, "|") {
		if !slices.Contains(k.values[f.Label], value) {
			j.problem("%s: %s is never %q", name, f.Label, value)
		}
	}
}

func newJudge(series map[string]known) *judge {
	return &judge{series: series, rated: map[metricsql.Expr]bool{}, names: map[string]bool{}}
}

// The judge finds what it is there for.
func TestJudge(t *testing.T) {
	all := series(t)
	f := func(query, want string) {
		t.Helper()
		j := newJudge(all)
		j.query(query)
		if text := strings.Join(j.problems, "\n"); want == "" && text != "" || !strings.Contains(text, want) {
			t.Errorf("%s: %q", query, text)
		}
	}
	f(`sum by (route) (rate(pg_kinetic_backpressure_events_total{outcome="shed",instance="x"}[5m])) > 1`, "")
	f(`histogram_quantile(0.9, sum by (le) (rate(pg_kinetic_query_duration_ms_bucket[5m])))`, "")
	f(`process_open_fds / process_max_fds`, "")
	f(`pg_kinetic_nothing`, "no metric")
	f(`pg_kinetic_query_duration_ms`, "no metric")
	f(`pg_kinetic_route_in_flight{cause="pool"}`, "no label cause")
	f(`pg_kinetic_route_saturation{kind="in flight"}`, "never")
	f(`pg_kinetic_route_saturation{kind=~"in_flight|wait"}`, `never "wait"`)
	f(`sum by (route) (pg_kinetic_buffer_bytes)`, "by route")
	f(`pg_kinetic_queries_total > 1`, "rate")
	f(`rate(pg_kinetic_buffer_bytes[5m])`, "rate")
	f(`histogram_quantile(0.9, sum by (route) (rate(pg_kinetic_query_duration_ms_bucket[5m])))`, "without le")
	f(`pg_kinetic_route_in_flight and on (user) pg_kinetic_pool_limit`, "a side")
	f(`median_over_time(pg_kinetic_buffer_bytes[5m])`, "no function")
	f(`sum(`, "sum(")
	if fixed := slices.Sorted(maps.Keys(all["pg_kinetic_timeout_total"].values)); !slices.Equal(fixed, []string{"kind"}) {
		t.Errorf("the values of %v are known", fixed)
	}
}
