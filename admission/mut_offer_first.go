//go:build sim && mut_offer_first

package admission

func init() { mutOfferFirst = true }
