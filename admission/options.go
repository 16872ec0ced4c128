package admission

// Policy says what happens to a request that finds its route's queue full.
type Policy uint8

// The policies. A full process queue refuses the newcomer under each of them.
const (
	RejectNew  Policy = iota // refuse the newcomer
	DropOldest               // the route's oldest waiter is shed, the newcomer takes its place in the count
	DropRandom               // the same with a random waiter of the route
)

// Verdict is the answer of Route.Enter.
type Verdict uint8

// The verdicts.
const (
	Pending     Verdict = iota // has a permit or is queued: ends by Driver.Link, Driver.End or Controller.Leave
	RouteFull                  // refused: the route's queue is full; the waiter is the caller's again
	ProcessFull                // refused: the process's queue is full; the waiter is the caller's again
	RouteDead                  // the route was forgotten: intern its key anew and enter that route
)

// Outcome counts how requests of a route fared.
type Outcome uint8

// The outcomes. Admitted counts every request that was given a backend, Queued those that had to wait for a permit;
// each queued or holding request ends as one of Admitted, TimedOut, Canceled, Disconnected, Shed and Drained, each
// refused one as Rejected.
const (
	Admitted Outcome = iota
	Queued
	Rejected
	TimedOut
	Canceled
	Disconnected
	Shed
	Drained
	outcomes
)

// Options configures a Controller. Zero values mean the defaults.
type Options struct {
	Loops              int    // event loops, 1 to MaxLoops
	FIFOSlack          int64  // ns by which a loop's own waiter may be younger than the route's oldest; 0 is strict order
	MaxWaiters         int    // queued waiters in the process
	MaxConnectsPerHost int    // logins in progress per host, and moves of places between its pools; default 8
	Seed               uint64 // of DropRandom's choice; 0 takes a random one
}

// PoolOptions configures a Pool. Database and User may be nil: no cap.
type PoolOptions struct {
	Host           *Host
	Database, User *Cap
	MaxSize        int // places, 1 to MaxPoolSize
}

// RouteOptions are the limits of a route; all of them may change while requests run.
type RouteOptions struct {
	MaxInFlight int // permits, 1 to MaxInFlight
	MaxWaiters  int // queued waiters, 0 to MaxWaiters
	Weight      int // share of the pool, 1 to MaxWeight; 0 means 1
	OnFull      Policy
}

func (o RouteOptions) checked() RouteOptions {
	if o.Weight == 0 {
		o.Weight = 1
	}
	must(o.MaxInFlight >= 1 && o.MaxInFlight <= MaxInFlight, "in-flight limit out of range")
	must(o.MaxWaiters >= 0 && o.MaxWaiters <= MaxWaiters, "waiters limit out of range")
	must(o.Weight >= 1 && o.Weight <= MaxWeight, "weight out of range")
	must(o.OnFull <= DropRandom, "unknown policy")
	return o
}

// must panics on a broken invariant: a bug of this package or of its caller, never an effect of load.
func must(ok bool, what string) {
	if !ok {
		panic("admission: BUG: " + what)
	}
}
