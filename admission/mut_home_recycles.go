//go:build sim && mut_home_recycles

package admission

func init() { mutHomeRecycles = true }
