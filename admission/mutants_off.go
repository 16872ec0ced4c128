//go:build !sim

package admission

// The simulator's mutations, one per race: each switches off the guard that closes it. Constants here, so that the
// product pays nothing for them.
const (
	mutOfferFirst   = false // the enqueue finishes after the offer that it caused and takes the grant for a wait
	mutReleaseBlind = false // a release lets its backend rest without reading in the same step who waits
	mutRaiseNoKick  = false // a raised limit or a RESUME does not run the scheduler
	mutAskForgotten = false // a release that finds nothing to give clears the asking that came meanwhile
	mutNoAsk        = false // nobody asks the pools above their share to give to a starving one
	mutReclaimBlind = false // an idle backend is closed without the claim that shows that nobody was promised it
	mutForgetInUse  = false // a route is forgotten although it is in use
	mutDeadAdmits   = false // a forgotten route still admits
	mutShedUnlocked = false // the victim to shed is chosen before the step that sheds it
	mutGoneNoReturn = false // a grant that arrives for a client that left is not given back
	mutReturnBlind  = false // a permit returns, or is rolled back, without reading in the same step who waits
	mutPauseIgnored = false // the fast path looks at the pause only before it reserves
	mutStaleChange  = false // a limit is stored over a word that changed meanwhile
	mutDiedBlind    = false // a dead idle backend is dropped although it was promised to somebody
	mutNoPass       = false // a freed place of a full host is not passed to the pool that waits for one
	mutWaitsThere   = false // a pool that has gone to another host goes on waiting for places of the old one
	mutCountStays   = false // a place that goes to another host leaves its count behind
	mutHomeRecycles = false // an ask that comes home ends a waiter whose grant still travels
	mutAsideRests   = false // a backend that was set aside rests again without a look at who waits
	mutSpareBlind   = false // what is kept idle is counted before the claim, not by it
)
