//go:build sim && mut_shed_unlocked

package admission

func init() { mutShedUnlocked = true }
