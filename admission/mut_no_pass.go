//go:build sim && mut_no_pass

package admission

func init() { mutNoPass = true }
