//go:build sim && mut_gone_no_return

package admission

func init() { mutGoneNoReturn = true }
