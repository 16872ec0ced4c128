//go:build sim && mut_release_blind

package admission

func init() { mutReleaseBlind = true }
