//go:build sim

package admission

import "testing"

// A scenario is a small world in which one race is as likely as can be: a few clients, every duration a few
// nanoseconds, a yield point between every two atomics. It runs under many schedules. The mutation that opens the race
// must make it fail with the invariant named here (TestMutants).
type scenario struct {
	name    string
	mutants map[string]string // build tag → what the failure says
	loops   int
	seeds   int // schedules; 0 means 200
	build   func(w *world)
}

var scenarios = []scenario{
	{
		name: "offer_before_its_enqueue", loops: 2, seeds: 1000,
		mutants: map[string]string{"mut_offer_first": "a grant arrived for a waiter that was not granted"},
		build: func(w *world) {
			p := w.addPool(w.addHost(1), nil, 1)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9}), 2, 20)
		},
	},
	{
		name: "release_against_enqueue", loops: 2,
		mutants: map[string]string{"mut_release_blind": "an idle backend while a waiter is eligible"},
		build: func(w *world) {
			p := w.addPool(w.addHost(1), nil, 1)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9}), 2, 8)
		},
	},
	{
		name: "raised_limit_and_resume_wake", loops: 2,
		mutants: map[string]string{"mut_raise_no_kick": "an eligible waiter while the pool may open a backend"},
		build: func(w *world) {
			h := w.addHost(1)
			p := w.addPool(h, nil, 1)
			s := w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
			w.crowd(s, 4, 6)
			for i := range 6 {
				w.at(i%2, int64(5*i), func() { p.Pause(i%2, w.now) })
				w.at(1-i%2, int64(5*i+20), func() { p.Resume(1-i%2, w.now) })
				w.at(i%2, int64(5*i), func() { s.r.Pause(i%2, w.now) })
				w.at(1-i%2, int64(5*i+25), func() { s.r.Resume(1-i%2, w.now) })
				w.at(i%2, int64(5*i), func() { w.c.Pause(i%2, w.now) })
				w.at(1-i%2, int64(5*i+30), func() { w.c.Resume(1-i%2, w.now) })
				o := RouteOptions{MaxInFlight: 1 + i%3, MaxWaiters: 9}
				w.at(i%2, int64(10*i), func() { s.r.SetLimits(i%2, w.now, o) })
				w.at(i%2, int64(10*i), func() { p.SetMaxSize(i%2, w.now, 1+i%3) })
				w.at(i%2, int64(10*i), func() { h.SetMax(w.c, i%2, w.now, 1+i%2) })
			}
		},
	},
	{
		name: "full_host_serves_the_starving_pool", loops: 2, seeds: 6,
		mutants: map[string]string{"mut_no_ask": "liveness: not both pools at their share"},
		build: func(w *world) {
			w.park, w.delay = .05, ms/10
			w.opt.service, w.opt.connect, w.opt.think = 20*ms, 30*ms, 1
			h := w.addHost(6)
			busy, late := w.addPool(h, nil, 6), w.addPool(h, nil, 6)
			s := w.addRoute(busy, RouteOptions{MaxInFlight: 9, MaxWaiters: 99})
			w.crowd(s, 20, 300)
			for _, v := range w.loops {
				w.housekeep(v, 50*ms)
			}
			w.run(500*ms, "the host full", func() bool { return busy.Counts().Size == 6 })
			w.crowd(w.addRoute(late, RouteOptions{MaxInFlight: 9, MaxWaiters: 99}), 20, 300)
			w.run(2000*ms, "both pools at their share", func() bool {
				return busy.Counts().Size == 3 && late.Counts().Size == 3
			})
		},
	},
	{
		name: "host_changed_while_places_come_and_go", loops: 2, seeds: 400,
		mutants: map[string]string{
			"mut_waits_there": "a pool waits for a place of a host that it has left",
			"mut_count_stays": "places counted on its hosts",
		},
		build: func(w *world) {
			a, b := w.addHost(2), w.addHost(4)
			w.opt.refuse, w.opt.sweep, w.opt.connect = .6, .5, 20
			moving, other := w.addPool(a, nil, 3), w.addPool(a, nil, 2)
			w.crowd(w.addRoute(moving, RouteOptions{MaxInFlight: 4, MaxWaiters: 9}), 4, 12)
			w.crowd(w.addRoute(other, RouteOptions{MaxInFlight: 4, MaxWaiters: 9}), 3, 8)
			for _, v := range w.loops {
				w.housekeep(v, 50)
			}
			for i := range 8 {
				w.at(i%2, int64(9*i), func() { moving.SetHost(i%2, w.now, []*Host{b, a}[i%2]) })
				w.at(1-i%2, int64(12*i), func() { a.SetMax(w.c, 1-i%2, w.now, 1+i%2) })
			}
		},
	},
	{
		name: "two_saturated_pools_share_a_full_host_of_90", loops: 2, seeds: 1,
		build: func(w *world) {
			w.park, w.delay = .01, ms/10
			w.opt.service, w.opt.connect, w.opt.think = 20*ms, 30*ms, 1
			h := w.addHost(90)
			h.SetMaxConnects(w.c, 0, w.now, 8)
			busy, late := w.addPool(h, nil, 90), w.addPool(h, nil, 90)
			w.crowd(w.addRoute(busy, RouteOptions{MaxInFlight: 200, MaxWaiters: 999}), 200, 160)
			for _, v := range w.loops {
				w.housekeep(v, 50*ms)
			}
			w.run(1000*ms, "the host full", func() bool { return busy.Counts().Size == 90 })
			w.crowd(w.addRoute(late, RouteOptions{MaxInFlight: 200, MaxWaiters: 999}), 200, 160)
			w.run(2000*ms, "both pools at their share", func() bool {
				return busy.Counts().Size == 45 && late.Counts().Size == 45
			})
		},
	},
	{
		name: "more_pools_than_places_take_turns", loops: 2, seeds: 3,
		build: func(w *world) {
			w.park, w.delay = .05, ms/10
			w.opt.service, w.opt.connect, w.opt.think = 20*ms, 30*ms, 1
			h := w.addHost(2)
			for range 4 {
				w.crowd(w.addRoute(w.addPool(h, nil, 2), RouteOptions{MaxInFlight: 9, MaxWaiters: 99}), 4, 400)
			}
			for _, v := range w.loops {
				w.housekeep(v, 50*ms)
			}
			w.run(5000*ms, "every pool served", func() bool {
				for _, p := range w.pools {
					if p.routes[0].r.Count(Admitted) == 0 {
						return false
					}
				}
				return true
			})
		},
	},
	{
		name: "reclaim_against_a_claim_and_another_reclaim", loops: 3,
		mutants: map[string]string{"mut_reclaim_blind": "a backend was taken twice"},
		build: func(w *world) {
			w.opt.sweep = 5
			p := w.addPool(w.addHost(2), w.c.NewCap("", 2), 2)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 3, 12)
			w.sweepUntil(400)
		},
	},
	{
		name: "forget_against_intern", loops: 2,
		mutants: map[string]string{
			"mut_forget_in_use": "a route in use was forgotten",
			"mut_dead_admits":   "a forgotten route admitted a request",
		},
		build: func(w *world) {
			p := w.addPool(w.addHost(2), nil, 2)
			s := w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 9})
			w.crowd(s, 3, 8)
			for i := range 30 {
				w.at(i%2, int64(4*i), func() { s.r.Forget() })
			}
		},
	},
	{
		name: "shed_against_grant", loops: 3,
		mutants: map[string]string{"mut_shed_unlocked": "dequeue of a waiter that is not queued"},
		build: func(w *world) {
			w.opt.timeout, w.opt.patience = .2, 8
			p := w.addPool(w.addHost(1), nil, 1)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 1, OnFull: DropOldest}), 4, 8)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 2, OnFull: DropRandom}), 4, 8)
		},
	},
	{
		name: "client_gone_while_its_grant_travels", loops: 3,
		mutants: map[string]string{"mut_gone_no_return": "liveness: not"},
		build: func(w *world) {
			w.opt.timeout, w.opt.patience, w.delay = .5, 8, 12
			p := w.addPool(w.addHost(2), nil, 2)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9}), 6, 8)
		},
	},
	{
		name: "ask_comes_home_before_the_grant", loops: 4, seeds: 1500,
		mutants: map[string]string{"mut_home_recycles": "a grant arrived for a waiter that was not granted"},
		build: func(w *world) {
			w.opt.timeout, w.opt.patience, w.delay = .7, 12, 12
			p := w.addPool(w.addHost(3), nil, 3)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 4, 12)
		},
	},
	{
		name: "two_counter_roll_back", loops: 3, seeds: 600,
		mutants: map[string]string{"mut_return_blind": "a route is eligible: true, but in the ring: false"},
		build: func(w *world) {
			p := w.addPool(w.addHost(2), nil, 2)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 9}), 3, 8)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 1, MaxWaiters: 9}), 3, 8)
		},
	},
	{
		name: "pause_against_the_fast_path", loops: 2, seeds: 600,
		mutants: map[string]string{"mut_pause_ignored": "a request ran in a paused and drained pool"},
		build: func(w *world) {
			p := w.addPool(w.addHost(2), nil, 2)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9}), 1, 20)
			for i := range 8 {
				w.at(1, int64(12*i+8), func() { p.Pause(1, w.now) })
				w.at(1, int64(12*i+14), func() { p.Resume(1, w.now) })
			}
		},
	},
	{
		name: "reload_while_permits_are_out", loops: 3,
		mutants: map[string]string{"mut_stale_change": "permits are out"},
		build: func(w *world) {
			h := w.addHost(2)
			p := w.addPool(h, nil, 3)
			s := w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9})
			w.crowd(s, 5, 8)
			for i := range 30 {
				o := RouteOptions{MaxInFlight: 1 + i%3, MaxWaiters: 3 + i%5, Weight: 1 + i%2}
				w.at(i%3, int64(4*i), func() { s.r.SetLimits(i%3, w.now, o) })
				w.at(i%3, int64(4*i), func() { p.SetMaxSize(i%3, w.now, 1+i%3) })
				w.at(i%3, int64(4*i), func() { h.SetMax(w.c, i%3, w.now, 1+i%2) })
				w.at(i%3, int64(4*i), func() { w.c.Trim(i%3, w.now) })
			}
		},
	},
	{
		name: "lowered_host_limit_against_a_release_that_finds_nothing_to_give", loops: 2, seeds: 400,
		mutants: map[string]string{"mut_ask_forgotten": "a pool is not asked to give"},
		build: func(w *world) {
			h := w.addHost(3)
			w.crowd(w.addRoute(w.addPool(h, nil, 3), RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 3, 12)
			for i := range 40 {
				w.at(i%2, int64(4*i), func() { h.SetMax(w.c, i%2, w.now, 1+2*(i%2)) })
			}
		},
	},
	{
		name: "idle_death_against_a_claim", loops: 3,
		mutants: map[string]string{"mut_died_blind": "a backend was taken twice"},
		build: func(w *world) {
			w.opt.dieIdle = 5
			p := w.addPool(w.addHost(2), nil, 2)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 3, 12)
			w.sweepUntil(400)
		},
	},
	{
		name: "put_back_against_an_enqueue", loops: 2,
		mutants: map[string]string{"mut_aside_rests": "an idle backend while a waiter is eligible"},
		build: func(w *world) {
			w.opt.look = 5
			p := w.addPool(w.addHost(1), nil, 1)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 2, MaxWaiters: 9}), 3, 12)
			w.sweepUntil(400)
		},
	},
	{
		name: "sweeps_of_two_loops_leave_what_is_kept", loops: 2,
		mutants: map[string]string{"mut_spare_blind": "fewer idle backends than are kept"},
		build: func(w *world) {
			w.opt.service, w.opt.sweep, w.opt.keep = 100, 5, 2
			p := w.addPool(w.addHost(4), nil, 4)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 4, MaxWaiters: 9}), 4, 1)
			w.run(ms, "four idle backends", func() bool { return p.Counts().Size == 4 && p.Drained() })
			w.sweepUntil(400)
			w.run(ms, "no more than are kept", func() bool {
				n := p.Counts()
				if n.Idle() < w.opt.keep {
					fail("fewer idle backends than are kept")
				}
				return n.Size == w.opt.keep
			})
		},
	},
	{
		name: "freed_place_of_a_full_host_is_passed_on", loops: 2,
		mutants: map[string]string{"mut_no_pass": "a pool waits for a place of a host or cap that has one"},
		build: func(w *world) {
			w.opt.dieBusy = .5
			h := w.addHost(1)
			w.crowd(w.addRoute(w.addPool(h, nil, 2), RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 2, 4)
			w.crowd(w.addRoute(w.addPool(h, nil, 2), RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 2, 4)
			for _, v := range w.loops {
				w.housekeep(v, 50*ms)
			}
		},
	},
	{
		name: "connects_fail_and_are_given_up", loops: 3,
		build: func(w *world) {
			w.opt.refuse, w.opt.giveUp, w.opt.timeout, w.opt.patience = .6, .3, .3, 12
			p := w.addPool(w.addHost(2), w.c.NewCap("", 2), 3)
			w.crowd(w.addRoute(p, RouteOptions{MaxInFlight: 3, MaxWaiters: 9}), 6, 8)
		},
	},
	{
		name: "thirteenth_of_eight_and_four", loops: 4,
		build: func(w *world) {
			w.opt.service = 1000 * ms
			p := w.addPool(w.addHost(20), nil, 20)
			s := w.addRoute(p, RouteOptions{MaxInFlight: 8, MaxWaiters: 4})
			w.crowd(s, 13, 1)
			w.run(100*ms, "twelve of thirteen admitted", func() bool {
				n := s.r.Counts()
				return n.InFlight == 8 && n.Waiting == 4 && s.r.Count(Rejected) == 1
			})
		},
	},
}

// crowd adds n clients that ask at nearly the same time, each several times.
func (w *world) crowd(s *simRoute, n, asks int) {
	for i := range n {
		w.addClient(i%len(w.loops), s, asks).next()
	}
}

// sweepUntil sweeps and loses idle backends all the time for d.
func (w *world) sweepUntil(d int64) {
	end := w.now + d
	for _, v := range w.loops {
		var again func()
		again = func() {
			for _, p := range w.pools {
				w.sweep(v, p)
			}
			if w.now < end {
				w.at(v.id, w.upTo(4), again)
			}
		}
		w.at(v.id, 1, again)
	}
}

func (s *scenario) run(seed uint64) (broken any) {
	w := newWorld(seed, Options{Loops: s.loops, MaxWaiters: 1000, MaxConnectsPerHost: 2, FIFOSlack: int64(seed%2) * 3})
	defer func() {
		if broken = recover(); broken == nil {
			w.close()
		}
		simYield = nil
	}()
	w.delay = 4
	w.opt = swarm{service: 4, connect: 6, think: 4, patience: 20}
	s.build(w)
	w.wind()
	return nil
}

func TestScenarios(t *testing.T) {
	for i := range scenarios {
		s := &scenarios[i]
		t.Run(s.name, func(t *testing.T) {
			n := s.seeds
			if n == 0 {
				n = 200
			}
			for seed := range uint64(n) {
				if broken := s.run(seed); broken != nil {
					t.Fatalf("schedule %d: %v", seed, broken)
				}
			}
		})
	}
}
