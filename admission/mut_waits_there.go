//go:build sim && mut_waits_there

package admission

func init() { mutWaitsThere = true }
