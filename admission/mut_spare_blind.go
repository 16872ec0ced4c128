//go:build sim && mut_spare_blind

package admission

func init() { mutSpareBlind = true }
