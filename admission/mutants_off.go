//go:build !sim

package admission

// The simulator's mutations, one per race: each switches off the guard that its file names. Constants here, so that
// the product pays nothing for them.
const (
	mutOfferFirst   = false
	mutReleaseBlind = false
	mutRaiseNoKick  = false
	mutNoAsk        = false
	mutReclaimBlind = false
	mutForgetInUse  = false
	mutDeadAdmits   = false
	mutGoneNoReturn = false
	mutPauseIgnored = false
	mutDiedBlind    = false
	mutNoPass       = false
)
