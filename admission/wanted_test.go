package admission

import "testing"

// TestWanted: a place is wanted back by everything that a further request on the same permit would stand in the way of.
func TestWanted(t *testing.T) {
	for name, want := range map[string]func(r *rig, rt *Route){
		"a waiter":                func(r *rig, rt *Route) { r.enter(rt, 0, "waits") },
		"a pause of the route":    func(r *rig, rt *Route) { rt.Pause(0, r.now) },
		"a pause of the pool":     func(r *rig, rt *Route) { r.pool.Pause(0, r.now) },
		"a pause of the process":  func(r *rig, rt *Route) { r.c.Pause(0, r.now) },
		"a lower limit":           func(r *rig, rt *Route) { rt.SetBounds(0, r.now, 1, 9) },
		"a smaller pool":          func(r *rig, rt *Route) { r.pool.SetMaxSize(0, r.now, 1) },
		"a lower limit of a host": func(r *rig, rt *Route) { r.host.SetMax(r.c, 0, r.now, 1) },
		"the other route's waiter": func(r *rig, rt *Route) {
			r.enter(r.pool.NewRoute(RouteOptions{MaxInFlight: 1, MaxWaiters: 1}), 0, "waits")
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{Loops: 1, MaxWaiters: 10}, 2, 2)
			rt := r.pool.NewRoute(RouteOptions{MaxInFlight: 2, MaxWaiters: 9})
			r.fill(rt, 0, 2)
			a, b := rt.TryRun(0), rt.TryRun(0)
			if a.Wanted() || b.Wanted() {
				t.Fatal("wanted by nobody")
			}
			want(r, rt)
			if !a.Wanted() || !b.Wanted() {
				t.Error("not wanted back")
			}
		})
	}
}
