//go:build sim && mut_died_blind

package admission

func init() { mutDiedBlind = true }
