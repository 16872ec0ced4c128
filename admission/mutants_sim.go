//go:build sim

package admission

// The mutations as variables: the build tag of the same name (mut_offer_first and so on) sets one.
var (
	mutOfferFirst   bool
	mutReleaseBlind bool
	mutRaiseNoKick  bool
	mutAskForgotten bool
	mutNoAsk        bool
	mutReclaimBlind bool
	mutForgetInUse  bool
	mutDeadAdmits   bool
	mutShedUnlocked bool
	mutGoneNoReturn bool
	mutReturnBlind  bool
	mutPauseIgnored bool
	mutStaleChange  bool
	mutDiedBlind    bool
	mutNoPass       bool
	mutWaitsThere   bool
	mutCountStays   bool
	mutHomeRecycles bool
	mutAsideRests   bool
	mutSpareBlind   bool
)
