//go:build sim && mut_forget_in_use

package admission

func init() { mutForgetInUse = true }
