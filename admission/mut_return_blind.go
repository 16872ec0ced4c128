//go:build sim && mut_return_blind

package admission

func init() { mutReturnBlind = true }
