//go:build sim && mut_ask_forgotten

package admission

func init() { mutAskForgotten = true }
