//go:build sim && mut_stale_change

package admission

func init() { mutStaleChange = true }
