package trials

import (
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/scenarios"
	"pgkinetic/bench/scram"
	"pgkinetic/bench/targets"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

func TestScenariosFitTheirKinds(t *testing.T) {
	all, err := scenarios.All()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, s := range all {
		if err := Check(s); err != nil {
			t.Error(err)
		}
		used[s.Kind] = true
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !used[kind] {
			t.Errorf("no scenario is of the kind %s", kind)
		}
	}
	for name, s := range map[string]scenarios.Scenario{
		"an unknown kind":       {Kind: "speed"},
		"a missing parameter":   {Kind: "refusal"},
		"an unknown parameter":  {Kind: "churn", Params: map[string]float64{"rate": 1}},
		"one of another's kind": {Kind: "stream", Params: map[string]float64{"input_bytes": 0, "rate": 1}},
	} {
		if Check(&s) == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

func TestWhoTakesPart(t *testing.T) {
	case1 := func(kind string, clients int) scenarios.Case {
		return scenarios.Case{Scenario: &scenarios.Scenario{Kind: kind}, Clients: clients}
	}
	direct := &targets.Target{Definition: &targets.Definition{OneToOne: true, MaxClients: 256}}
	for _, c := range []struct {
		c    scenarios.Case
		want bool
	}{
		{case1("pgbench", 256), true},
		{case1("pgbench", 257), false},
		{case1("overload", 1), false},
		{case1("storm", 1), false},
	} {
		if why, ok := Applies(c.c, direct); ok != c.want || (why == "") != ok {
			t.Errorf("%s with %d clients: %v, %q", c.c.Kind, c.c.Clients, ok, why)
		}
	}
}

func TestProtocolOfThoseThatCannotTrack(t *testing.T) {
	for _, c := range []struct {
		wanted string
		tracks bool
		want   string
	}{
		{"prepared", true, "prepared"}, {"prepared", false, "simple"}, {"extended", false, "extended"}, {"simple", false, "simple"},
	} {
		if got := Protocol(c.wanted, c.tracks); got != c.want {
			t.Errorf("%s, %v: %s", c.wanted, c.tracks, got)
		}
	}
}

func TestRefusalsCoverAQueue(t *testing.T) {
	// 100 requests a second end: a queue of 32 is not empty for 32 × 10 ms.
	const drain = 320 * time.Millisecond
	if !refusalsCover(drain-1, 100, 32) || refusalsCover(drain, 100, 32) {
		t.Errorf("gaps of %v and %v: %v, %v", drain-1, drain, refusalsCover(drain-1, 100, 32), refusalsCover(drain, 100, 32))
	}
}

func TestOnlyRoomySlicesCount(t *testing.T) {
	tally := func(latency time.Duration, refused int) *load.Tally {
		l := &load.Tally{Span: time.Second, Within: 200, Gap: time.Millisecond}
		l.Served.Record(latency)
		for range refused {
			l.Refused.Record(1)
		}
		return l
	}
	roomy, full := measure.Share{Free: 0.5}, measure.Share{Free: 0.1}
	var p pair
	p.add(half{tally(time.Millisecond, 0), nil, roomy}, half{tally(2*time.Millisecond, 0), tally(1, 300), roomy}, 32)
	p.add(half{tally(time.Second, 0), nil, roomy}, half{tally(time.Second, 1), tally(1, 0), full}, 32)
	starving := tally(1, 100)
	starving.Gap = time.Second
	p.add(half{tally(time.Millisecond, 0), nil, roomy}, half{tally(2*time.Millisecond, 0), starving, roomy}, 32)
	if p.counted != 2 || p.starved != 1 || p.refused != 1 {
		t.Fatalf("%+v", p)
	}
	r := p.round(3)
	near := func(f figures.Figure, want float64) {
		t.Helper()
		if got := r.Sample[f]; math.Abs(got-want) > want/20 {
			t.Errorf("%s is %v, want %v", f, got, want)
		}
	}
	near(figures.Alone, 1)
	near(figures.Beside, 2)
	near(figures.BulkLoad, 200)
	near(figures.Starved, 1)
	near(figures.WrongOnes, 1)
	if !r.Disturbed || p.round(2).Disturbed {
		t.Error("a round with fewer slices than wanted is disturbed, and no other")
	}
	if empty := (&pair{}).round(1); !empty.Disturbed || len(empty.Sample) != 1 {
		t.Errorf("without slices: %+v", empty)
	}
}

// fixture is a PostgreSQL with TLS, and a fleet before it.
type fixture struct {
	server *pgtest.Server
	fleet  *targets.Fleet
	binary string // pg-kinetic's
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	binary, err := pooler.Built()
	if err != nil {
		t.Fatal(err)
	}
	dir, remove, err := pgtest.PrivateDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(remove)
	cert, key, err := targets.CertificateFiles(dir, pgtest.Unprivileged())
	if err != nil {
		t.Fatal(err)
	}
	server := pgtest.Start(t, pgtest.Setting("ssl", "on"), pgtest.Setting("ssl_cert_file", cert), pgtest.Setting("ssl_key_file", key))
	definitions, err := targets.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{server, &targets.Fleet{
		Definitions: definitions, Backends: 5, Clients: 500, Dir: dir,
		Server: targets.Server{Host: "127.0.0.1", Port: server.Port, User: "postgres", Database: "postgres"},
	}, binary}
}

// start starts a target of the definition.
func (f *fixture) start(t *testing.T, of string, c targets.Choice) *targets.Target {
	t.Helper()
	c.Name, c.Of = of, of
	if of == "pg-kinetic" {
		c.Binary = f.binary
	}
	target, err := f.fleet.Start(c)
	if errors.Is(err, targets.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := target.Stop(); err != nil {
			t.Error(err)
		}
	})
	return target
}

func (f *fixture) run(t *testing.T, m *moment, target *targets.Target) {
	t.Helper()
	runOnce(t, Setup{
		Case: scenarios.Case{Scenario: &m.Scenario, Clients: m.clients}, Target: target, Server: f.fleet.Server, Bin: f.server.Bin,
		Backends: 5, Scale: 1, Length: 300 * time.Millisecond, Dir: t.TempDir(),
	}, m.figures)
}

// Every kind runs for a moment before PostgreSQL and pg-kinetic: that it runs and what it gives, not what it finds.
func TestKinds(t *testing.T) {
	f := newFixture(t)
	common := f.start(t, "pg-kinetic", targets.Choice{})
	for _, m := range moments {
		t.Run(m.Kind, func(t *testing.T) {
			target := common
			if len(m.Targets) > 0 {
				target = f.start(t, "pg-kinetic", m.Targets[0])
			}
			f.run(t, &m, target)
		})
	}
}

// With TLS and SCRAM both pgbench and our own loads get through the poolers, and nobody who lacks one of them.
func TestSecurity(t *testing.T) {
	f := newFixture(t)
	for _, of := range []string{"pg-kinetic", "pgbouncer"} {
		t.Run(of, func(t *testing.T) {
			target := f.start(t, of, targets.Choice{Security: targets.Security{TLS: "both", Scram: true}})
			f.run(t, &moments[0], target)
			if n := f.server.Value(t, "select count(*) from pg_stat_ssl join pg_stat_activity using (pid) where client_port > 0 and not ssl"); n != "0" {
				t.Errorf("%s backends are not reached with TLS", n)
			}
			setup := Setup{Target: target}
			right := setup.server()
			plain, nobody, wrong := right, right, right
			plain.TLS, nobody.Authenticate = false, nil
			wrong.Authenticate = func() load.Authenticator { return scram.NewUser("wrong").Login() }
			for _, c := range []struct {
				name     string
				server   load.Server
				answered int
			}{{"as it should be", right, 1}, {"in clear", plain, 0}, {"without a proof", nobody, 0}, {"with a wrong one", wrong, 0}} {
				got, err := load.Churn{Clients: 1, Logins: 1}.Run(t.Context(), c.server)
				if err != nil || got.Answered != c.answered {
					t.Errorf("%d logins %s were answered, %v, %v", got.Answered, c.name, got.Err, err)
				}
			}
		})
	}
}

func runOnce(t *testing.T, s Setup, want []figures.Figure) {
	t.Helper()
	if err := Check(s.Case.Scenario); err != nil {
		t.Fatal(err)
	}
	if why, ok := Applies(s.Case, s.Target); !ok {
		t.Fatal(why)
	}
	trial, err := Open(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := trial.Close(); err != nil {
			t.Error(err)
		}
	}()
	round, err := trial.Round(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range want {
		if _, ok := round.Sample[f]; !ok && !(round.Disturbed && s.Case.Kind == "isolation") {
			t.Errorf("no %s in %+v", f, round)
		}
	}
	if round.Trouble != "" || round.Sample[figures.Errors] != 0 || round.Sample[figures.Unanswered] != 0 {
		t.Errorf("%+v", round)
	}
	if probe, ok := trial.(Probe); ok && measure.Perf() == nil {
		if n, err := probe.Syscalls(t.Context()); err != nil || n < 1 || n > 1000 {
			t.Errorf("%v system calls in a transaction, %v", n, err)
		}
	}
}

// moment is a scenario that is over in a moment.
type moment struct {
	scenarios.Scenario
	clients int
	figures []figures.Figure
}

var moments = []moment{
	{
		scenarios.Scenario{Kind: "pgbench", Pgbench: scenarios.Pgbench{Script: "select 1;\n", Protocol: "prepared"}},
		2,
		[]figures.Figure{
			figures.TPS, figures.Mean, figures.P50, figures.P999, figures.CPU, figures.CPUUser, figures.Switches, figures.Resident,
		},
	},
	{scenarios.Scenario{Kind: "churn"}, 4, []figures.Figure{figures.TPS, figures.P99, figures.CPU}},
	{
		scenarios.Scenario{
			Kind: "stream", Query: "copy bench_copy from stdin where false", Params: map[string]float64{"input_bytes": 1 << 20},
			Prepare: "create table if not exists bench_copy (line text)",
		},
		2,
		[]figures.Figure{figures.Throughput, figures.CPUPerMB, figures.Resident},
	},
	{
		scenarios.Scenario{
			Kind: "slow", Query: "select repeat('x', 1000) from generate_series(1, 300)",
			Params: map[string]float64{"input_bytes": 0, "rate": 1 << 17},
		},
		2,
		[]figures.Figure{figures.Resident},
	},
	{
		scenarios.Scenario{
			Kind: "overload", Query: "select pg_sleep(0.002)",
			Params:  map[string]float64{"in_flight": 2, "waiters": 4, "factor": 3, "step_s": 0.1, "length_s": 0.2},
			Targets: []targets.Choice{{Args: []string{"--capacity.max-route-in-flight=2", "--capacity.max-route-waiters=4"}}},
		},
		64,
		[]figures.Figure{figures.Peak, figures.Goodput, figures.TailOfBound, figures.Growth, figures.GrowthPart},
	},
	{
		scenarios.Scenario{
			Kind: "isolation", Query: "select pg_sleep(0.02)",
			Params: map[string]float64{
				"rate": 200, "bulk_rate": 300, "bulk_sessions": 64, "waiters": 2, "slices": 1, "slice_s": 0.2,
			},
			Targets: []targets.Choice{{Env: []string{
				`PG_KINETIC_ROUTES=[{"name": "bulk", "match": {"application_name": "bulk-*"}, "max_route_in_flight": 1, "max_route_waiters": 2}]`,
			}}},
		},
		8,
		[]figures.Figure{figures.Alone, figures.Beside, figures.BulkLoad, figures.WrongOnes},
	},
	{
		scenarios.Scenario{
			Kind: "refusal", Query: "select 1", Params: map[string]float64{"requests": 1000},
			Targets: []targets.Choice{{Env: []string{
				`PG_KINETIC_ROUTES=[{"name": "full", "match": {"application_name": "full"}, "max_route_in_flight": 1, "max_route_waiters": 0}]`,
			}}},
		},
		8,
		[]figures.Figure{figures.CPU, figures.RefusalCPU},
	},
	{
		scenarios.Scenario{Kind: "idle", Query: "select 1", Params: map[string]float64{"few": 2, "settle_s": 0.01}},
		20,
		[]figures.Figure{figures.IdleBytes, figures.Resident},
	},
	{
		scenarios.Scenario{
			Kind: "scrape", Query: "select 1",
			Params:  map[string]float64{"routes": 3, "rate": 100, "slices": 1, "slice_s": 0.2, "scrapes": 10},
			Targets: []targets.Choice{{Args: []string{"--admin.listen=127.0.0.1:{{.Extra}}", "--admin.stats-users=postgres"}}},
		},
		10,
		[]figures.Figure{
			figures.Scrape, figures.ScrapeMost, figures.ScrapeCPU, figures.ScrapeLoops, figures.ScrapeSize, figures.Growth, figures.Show,
			figures.Rows,
		},
	},
	{
		scenarios.Scenario{
			Kind: "storm", Query: "select 1",
			Params: map[string]float64{"steady_sessions": 4, "steady_rate": 100, "quiet_s": 0.2, "limit_s": 20},
		},
		100,
		[]figures.Figure{figures.Alone, figures.Beside, figures.Unanswered, figures.LastLogin},
	},
	{
		scenarios.Scenario{
			Kind: "silent", Params: map[string]float64{"logins": 2, "settle_s": 0.01},
			Targets: []targets.Choice{{Security: targets.Security{TLS: "clients", Scram: true}}},
		},
		10,
		[]figures.Figure{figures.LoginAlone, figures.LoginBeside, figures.TurnedAway},
	},
}

func TestEveryKindHasItsMoment(t *testing.T) {
	for kind := range kinds {
		if !slices.ContainsFunc(moments, func(m moment) bool { return m.Kind == kind }) {
			t.Errorf("%s is not run", kind)
		}
	}
}
