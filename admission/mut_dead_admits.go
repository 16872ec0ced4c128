//go:build sim && mut_dead_admits

package admission

func init() { mutDeadAdmits = true }
