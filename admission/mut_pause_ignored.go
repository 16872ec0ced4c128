//go:build sim && mut_pause_ignored

package admission

func init() { mutPauseIgnored = true }
