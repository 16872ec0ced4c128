//go:build sim && mut_no_ask

package admission

func init() { mutNoAsk = true }
