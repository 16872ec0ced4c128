//go:build sim && mut_count_stays

package admission

func init() { mutCountStays = true }
