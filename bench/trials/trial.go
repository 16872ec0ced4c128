// Package trials runs the loads of scenarios: a trial is one case on one target, made ready once and run round by round.
package trials

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	"pgkinetic/bench/figures"
	"pgkinetic/bench/load"
	"pgkinetic/bench/measure"
	"pgkinetic/bench/pgbench"
	"pgkinetic/bench/scenarios"
	"pgkinetic/bench/scram"
	"pgkinetic/bench/targets"
)

// Trial is one case on one target. It belongs to one goroutine.
type Trial interface {
	// Round runs once. Rounds with the same number, of several targets, get the same arrivals.
	Round(ctx context.Context, n int) (figures.Round, error)
	// Close ends what the trial holds open.
	Close() error
}

// Probe is a trial that can count the system calls of a transaction, in a round of its own.
type Probe interface {
	Syscalls(ctx context.Context) (float64, error)
}

// Setup is what a trial is made from.
type Setup struct {
	Case     scenarios.Case
	Target   *targets.Target
	Server   targets.Server // PostgreSQL
	Bin      string         // of PostgreSQL's programs
	Backends int
	Scale    int           // of pgbench's tables
	Length   time.Duration // of a round
	Dir      string        // for files
	// Postmaster is PostgreSQL's process, 0 where it runs on another machine.
	Postmaster int
}

// kind is a kind of load.
type kind struct {
	params []string // the numbers that a scenario must give
	pooler bool     // makes no sense without a pooler
	shared bool     // has more clients than PostgreSQL could have connections: not for those that hold one for each client
	open   func(context.Context, Setup) (Trial, error)
}

var kinds = map[string]kind{
	"pgbench": {open: openPgbench},
	"churn":   {open: openChurn},
	"stream":  {open: openStream, params: []string{"input_bytes"}},
	"slow":    {open: openStream, pooler: true, params: []string{"input_bytes", "rate"}},
	"overload": {
		open: openOverload, pooler: true,
		params: []string{"in_flight", "waiters", "factor", "step_s", "length_s"},
	},
	"isolation": {
		open: openIsolation, pooler: true,
		params: []string{"rate", "bulk_rate", "bulk_sessions", "waiters", "slices", "slice_s"},
	},
	"refusal": {open: openRefusal, pooler: true, params: []string{"requests"}},
	"silent":  {open: openSilent, pooler: true, shared: true, params: []string{"logins", "settle_s"}},
	"idle":    {open: openIdle, pooler: true, shared: true, params: []string{"few", "settle_s"}},
	"scrape": {
		open: openScrape, pooler: true, shared: true,
		params: []string{"routes", "rate", "slices", "slice_s", "scrapes"},
	},
	"storm": {
		open: openStorm, pooler: true, shared: true,
		params: []string{"steady_sessions", "steady_rate", "quiet_s", "limit_s"},
	},
}

// Check tells what is wrong with a scenario for its kind.
func Check(s *scenarios.Scenario) error {
	k, ok := kinds[s.Kind]
	if !ok {
		return fmt.Errorf("%s: there is no kind %q, but %v", s.Name, s.Kind, slices.Sorted(maps.Keys(kinds)))
	}
	for _, name := range k.params {
		if _, ok := s.Params[name]; !ok {
			return fmt.Errorf("%s: the parameter %s is missing", s.Name, name)
		}
	}
	for name := range s.Params {
		if !slices.Contains(k.params, name) {
			return fmt.Errorf("%s: %s has no parameter %s", s.Name, s.Kind, name)
		}
	}
	return nil
}

// Applies tells whether a target can take part in a case; why says why not.
func Applies(c scenarios.Case, t *targets.Target) (why string, ok bool) {
	switch {
	case kinds[c.Kind].pooler && len(t.Roots()) == 0:
		return "no pooler", false
	case kinds[c.Kind].shared && t.Definition.OneToOne:
		return "holds a connection to PostgreSQL for each client", false
	case t.Definition.Password && c.Kind != "pgbench":
		return "asks for a password, which this load does not have", false
	case !t.Takes(c.Clients):
		return fmt.Sprintf("takes %d clients at most", t.Definition.MaxClients), false
	}
	return "", true
}

// Open makes a trial ready: its pool is filled and its buffers have their size when it returns.
func Open(ctx context.Context, s Setup) (Trial, error) {
	return kinds[s.Case.Kind].open(ctx, s)
}

// watch reads what belongs to the trial.
func (s *Setup) watch() measure.Watch {
	roots := s.Target.Roots()
	if s.Postmaster != 0 {
		roots = append(roots, s.Postmaster)
	}
	return measure.Watch{Roots: roots}
}

// client is where pgbench connects to.
func (s *Setup) client() pgbench.Server {
	t := s.Target.Server
	return pgbench.Server{
		Bin: s.Bin, Host: t.Host, Port: t.Port, User: t.User, Password: t.Password, Database: t.Database, TLS: s.Target.ClientTLS(),
	}
}

// server is where package load connects to.
func (s *Setup) server() load.Server {
	t := s.Target.Server
	server := load.Server{
		Network: "tcp", Address: net.JoinHostPort(t.Host, strconv.Itoa(t.Port)), User: t.User, Database: t.Database,
		TLS: s.Target.ClientTLS(),
	}
	if s.Target.Scram {
		user := scram.NewUser(t.Password)
		server.Authenticate = func() load.Authenticator { return user.Login() }
	}
	return server
}

// acquaint logs one client in: what a login is answered with, a pooler may have to ask PostgreSQL for once, and many first logins
// at a time would be more than the routes of some scenarios let wait.
func (s *Setup) acquaint(ctx context.Context) error {
	g, err := load.Dial(s.server(), load.Ordinary, load.Class{Application: "first", Query: "select 1", Sessions: 1})
	if err != nil {
		return err
	}
	defer g.Close()
	t, err := g.Repeat(ctx, 0, 1, 1, 0)
	if err != nil {
		return err
	}
	return unexpected(t)
}

// expense is what a piece of work took: the pooler's part, and how the machine was.
type expense struct {
	pooler measure.Usage
	share  measure.Share
}

// during runs the work and reads before and after it.
func (s *Setup) during(work func() error) (expense, error) {
	watch := s.watch()
	machine, err := watch.Read()
	if err != nil {
		return expense{}, err
	}
	before, err := measure.Of(s.Target.Roots()...)
	if err != nil {
		return expense{}, err
	}
	if err := work(); err != nil {
		return expense{}, err
	}
	after, err := measure.Of(s.Target.Roots()...)
	if err != nil {
		return expense{}, err
	}
	end, err := watch.Read()
	return expense{after.Minus(before), end.Since(machine)}, err
}

// add adds the pooler's part to the figures of so many transactions.
func (s *Setup) add(sample figures.Sample, spent expense, transactions float64) error {
	roots := s.Target.Roots()
	if len(roots) == 0 || transactions <= 0 {
		return nil
	}
	sample[figures.CPU] = spent.pooler.Seconds() * 1e6 / transactions
	sample[figures.CPUUser] = spent.pooler.User * 1e6 / transactions
	sample[figures.CPUSystem] = spent.pooler.System * 1e6 / transactions
	sample[figures.Switches] = spent.pooler.Switches / transactions
	bytes, err := measure.Resident(roots...)
	sample[figures.Resident] = float64(bytes) / (1 << 20)
	return err
}
