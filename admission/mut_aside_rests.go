//go:build sim && mut_aside_rests

package admission

func init() { mutAsideRests = true }
