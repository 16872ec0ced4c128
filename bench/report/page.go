package report

import (
	"fmt"
	"os"
	"strings"
)

// The lines of a page between which the results stand.
const (
	pageBegin = "<!-- results: written by `go run ./bench -docs`, do not edit -->\n"
	pageEnd   = "<!-- end of the results -->\n"
)

// Rewrite puts the overview of the results into a page, in the place of the old one.
func (r *Results) Rewrite(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	fresh, err := r.rewrite(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(fresh), 0o644)
}

func (r *Results) rewrite(page string) (string, error) {
	head, rest, begins := strings.Cut(page, pageBegin)
	_, tail, ends := strings.Cut(rest, pageEnd)
	if !begins || !ends {
		return "", fmt.Errorf("the lines %q and %q are not there", strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	return head + pageBegin + "\n" + r.Overview() + "\n" + pageEnd + tail, nil
}
