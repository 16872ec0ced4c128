package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// row is one driver in one variant; a skipped driver has one row, without outcomes.
type row struct {
	driver           *driver
	variant          string
	alone, contended *outcome
	skipped          string // why, in one line
}

// The table stands between these lines of docs/drivers.md.
const (
	tableBegin = "<!-- table: written by `make drivers TABLE=1` -->"
	tableEnd   = "<!-- end of the table -->"
)

// table writes the rows as a Markdown table: a column per shared capability, one for what is a driver's own.
func table(rows []row) string {
	columns := append(slices.Clone(shared), moved)
	var b strings.Builder
	fmt.Fprintf(&b, "| driver | version | %s | more |\n|---|---|%s---|\n", strings.Join(columns, " | "), strings.Repeat("---|", len(columns)))
	for _, r := range rows {
		if r.skipped != "" {
			fmt.Fprintf(&b, "| %s | skipped: %s |%s |\n", r.driver.title, cell(r.skipped), strings.Repeat(" |", len(columns)))
			continue
		}
		title := r.driver.title
		if r.variant != "" {
			title += ", `" + r.variant + "`"
		}
		fmt.Fprintf(&b, "| %s | %s |", title, cell(r.alone.version))
		for _, c := range columns {
			fmt.Fprintf(&b, " %s |", r.verdict(c))
		}
		var more []string
		for _, c := range r.driver.own {
			more = append(more, c+" "+r.verdict(c))
		}
		fmt.Fprintf(&b, " %s |\n", strings.Join(more, ", "))
	}
	return b.String()
}

// verdict is "yes" when a capability works in both runs.
func (r row) verdict(capability string) string {
	if _, no := r.driver.lacks[capability]; no {
		return "–"
	}
	alone, contended := r.alone.results[capability] == "", r.contended.results[capability] == ""
	switch {
	case alone && contended:
		return "yes"
	case alone:
		return "**alone**"
	case contended:
		return "**contended**"
	}
	return "**no**"
}

func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// rewrite puts the table into the file.
func rewrite(path string, rows []row) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(text), tableBegin+"\n")
	_, after, ends := strings.Cut(rest, tableEnd+"\n")
	if !found || !ends {
		return errors.New(path + ": the lines that enclose the table are missing")
	}
	return os.WriteFile(path, []byte(before+tableBegin+"\n\n"+table(rows)+"\n"+tableEnd+"\n"+after), 0o644)
}
