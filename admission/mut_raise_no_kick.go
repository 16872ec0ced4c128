//go:build sim && mut_raise_no_kick

package admission

func init() { mutRaiseNoKick = true }
