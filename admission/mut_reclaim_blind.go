//go:build sim && mut_reclaim_blind

package admission

func init() { mutReclaimBlind = true }
