//go:build sim

package admission

import "testing"

// town is a full host of 50 places with 20 pools of up to 20: fourteen have a request now and then, three are loaded
// beyond all measure, later three others, and in the end all of them.
type town struct {
	*world
	host   *Host
	routes []*simRoute
}

func newTown(seed uint64) *town {
	w := newWorld(seed, Options{Loops: 1 + int(seed%4), MaxWaiters: 10000, MaxConnectsPerHost: 8})
	w.park, w.delay = .01, ms/10
	w.opt = swarm{service: 20 * ms, connect: 30 * ms, think: 1, patience: 20}
	t := &town{world: w, host: w.addHost(50)}
	for range 20 {
		t.routes = append(t.routes, w.addRoute(w.addPool(t.host, nil, 20), RouteOptions{MaxInFlight: 99, MaxWaiters: 999}))
	}
	for _, v := range w.loops {
		w.housekeep(v, 50*ms)
	}
	for i := 3; i < 17; i++ {
		c := w.addClient(i%len(w.loops), t.routes[i], 1000)
		c.think = 400 * ms
		c.next()
	}
	return t
}

func (t *town) load(from, to int) {
	for _, s := range t.routes[from:to] {
		t.crowd(s, 40, 1000)
	}
}

func (t *town) unload(from, to int) {
	for _, c := range t.clients {
		for _, s := range t.routes[from:to] {
			if c.slot == s {
				c.asks = 0
			}
		}
	}
}

// passTime lets d go by and answers how many backends were opened and how many requests of the quiet pools ran.
func (t *town) passTime(d int64) (opens int, quiet uint64) {
	opens, quiet = t.opens, t.quiet()
	end := t.now + d
	t.run(2*d, "the time over", func() bool { return t.now >= end })
	return t.opens - opens, t.quiet() - quiet
}

func (t *town) quiet() (n uint64) {
	for _, s := range t.routes[3:17] {
		n += s.r.Count(Admitted)
	}
	return n
}

// want fails unless each of the pools has at least n places.
func (t *town) want(from, to, n int) {
	for i, p := range t.pools[from:to] {
		if got := p.Counts().Size; got < n {
			fail("pool %d has %d places after 2 s, want %d", from+i, got, n)
		}
	}
}

// Load that shifts between the pools of a full host is followed within seconds, the host's limit holds throughout (the
// world checks it), and once everybody has what is due to him no backend is closed for another pool: those that are used
// now and then stay where they are.
func TestSharesFollowTheLoadWithoutReconnecting(t *testing.T) {
	for _, seed := range []uint64{0, 3} {
		d := newTown(seed)
		func() {
			defer func() {
				if broken := recover(); broken != nil {
					t.Errorf("seed %d: %v", seed, broken)
				}
				simYield = nil
			}()
			_, alone := d.passTime(2000 * ms)
			d.load(0, 3)
			d.passTime(2000 * ms)
			d.want(0, 3, 8)
			d.wantCalm(t, seed, alone)
			d.unload(0, 3)
			d.load(17, 20)
			if opens, _ := d.passTime(2000 * ms); opens > 60 {
				t.Errorf("seed %d: %d backends opened when the load shifted", seed, opens)
			}
			d.want(17, 20, 8)
			d.wantCalm(t, seed, alone)
			d.load(0, 17)
			d.passTime(2000 * ms)
			d.want(0, 20, 2)
			if opens, _ := d.passTime(2000 * ms); opens > 0 {
				t.Errorf("seed %d: %d backends opened while all pools have their share", seed, opens)
			}
		}()
	}
}

// wantCalm: two more seconds of the same load move nearly nothing, and the quiet pools hardly notice it.
func (d *town) wantCalm(t *testing.T, seed uint64, alone uint64) {
	t.Helper()
	if opens, quiet := d.passTime(2000 * ms); opens > 5 || quiet < alone*8/10 {
		t.Errorf("seed %d: %d backends opened in 2 s, %d requests of quiet pools, %d without the load", seed, opens, quiet, alone)
	}
}
