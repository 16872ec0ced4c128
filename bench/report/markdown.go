package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"pgkinetic/bench/figures"
)

// none stands where a target has no such figure.
const none = "–"

// table writes rows of cells as a Markdown table whose columns are padded, so that it can be read on a terminal as well. The
// first row is the heading, the first column is text and the others are numbers.
func table(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 3)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				fmt.Fprintf(&b, "| %s%s ", cell, pad)
			} else {
				fmt.Fprintf(&b, "| %s%s ", pad, cell)
			}
		}
		b.WriteString("|\n")
		if n == 0 {
			for i, width := range widths {
				if i == 0 {
					fmt.Fprintf(&b, "|%s", strings.Repeat("-", width+2))
				} else {
					fmt.Fprintf(&b, "|%s:", strings.Repeat("-", width+1))
				}
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}

// cell is a median, how far the rounds lie from it at most, and its ratio to the baseline's.
func (c *Case) cell(target string, info figures.Info) string {
	spread, ok := c.value(target, info.Figure)
	if !ok {
		return none
	}
	text := info.Format(spread.Median)
	if far := max(spread.High-spread.Median, spread.Median-spread.Low); far > 0 && spread.Median > 0 {
		text += fmt.Sprintf(" ±%.0f%%", far/spread.Median*100)
	}
	if base, ok := c.value(c.Baseline, info.Figure); ok && target != c.Baseline && base.Median > 0 {
		text += fmt.Sprintf(" (%.2f)", spread.Median/base.Median)
	}
	return text
}

// Markdown is the case with all its figures.
func (c *Case) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "### %s\n\n%s. %d clients, %d backends", c.Name, c.About, c.Clients, c.Backends)
	if c.Seconds > 0 {
		fmt.Fprintf(&b, ", %d rounds of %g s", c.Rounds, c.Seconds)
	}
	b.WriteString(".\n\n")
	if len(c.Series) > 0 {
		b.WriteString(c.table())
	}
	for i, note := range c.notes() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", note)
	}
	if len(c.Verdicts) > 0 {
		b.WriteString("\n" + verdicts(c.Verdicts))
	}
	return b.String()
}

func (c *Case) table() string {
	rows := [][]string{{"median ±furthest"}}
	for _, s := range c.Series {
		name := s.Target
		if s.Target != c.Baseline && c.of(c.Baseline) != nil {
			name += fmt.Sprintf(" (÷ %s)", c.Baseline)
		}
		rows[0] = append(rows[0], name)
	}
	for _, info := range c.figures() {
		row := []string{info.Header()}
		for _, s := range c.Series {
			row = append(row, c.cell(s.Target, info))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// notes are what must be known of the case's figures.
func (c *Case) notes() (notes []string) {
	for i := range c.Series {
		s := &c.Series[i]
		if s.Note != "" {
			notes = append(notes, s.Target+": "+s.Note)
		}
		if n := s.Disturbed(); n > 0 || s.Repeated > 0 {
			notes = append(notes, fmt.Sprintf("%s: %d of %d rounds on a disturbed machine, after %d repetitions", s.Target, n,
				len(s.Rounds), s.Repeated))
		}
		if k := slices.IndexFunc(s.Rounds, func(r figures.Round) bool { return r.Trouble != "" }); k >= 0 {
			notes = append(notes, fmt.Sprintf("%s: %s", s.Target, s.Rounds[k].Trouble))
		}
	}
	for _, skip := range c.Skipped {
		notes = append(notes, fmt.Sprintf("%s left out: %s", skip.Target, skip.Why))
	}
	return notes
}

func verdicts(all []figures.Verdict) string {
	rows := [][]string{{"criterion", "must", "aim", "measured", "result"}}
	for _, v := range all {
		row := []string{v.Text, v.Relation(), v.AimText(), none, v.Result()}
		switch {
		case !v.Judged:
			row[4] += ": " + v.Why
		case v.Unquiet:
			row[3], row[4] = v.Number(), row[4]+" (disturbed)"
		default:
			row[3] = v.Number()
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// Markdown is all that was measured.
func (r *Results) Markdown() string {
	var b strings.Builder
	b.WriteString("# Results\n\n" + r.provenance())
	if all := r.Verdicts(); len(all) > 0 {
		b.WriteString("\n## Criteria\n\n" + verdicts(all))
	}
	b.WriteString("\n## Cases\n")
	for i := range r.Cases {
		b.WriteString("\n" + r.Cases[i].Markdown())
	}
	return b.String()
}

// provenance says when and on what the cases were measured, one line for each machine and each program.
func (r *Results) provenance() string {
	var lines []string
	add := func(line string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, c := range r.Cases {
		add(fmt.Sprintf("- %s: %s", c.Measured.UTC().Format("2006-01-02"), c.Machine))
	}
	for _, c := range r.Cases {
		for _, s := range c.Series {
			add(fmt.Sprintf("- %s: %s", s.Target, s.Program))
		}
	}
	if len(lines) == 0 {
		return "Nothing was measured.\n"
	}
	return strings.Join(lines, "\n") + "\n"
}

// overview are the figures of the tables in the documentation, and of the charts.
var overview = []figures.Figure{figures.CPU, figures.TPS, figures.Mean, figures.P99}

// Overview is a shorter form: the criteria, and for each of a few figures a table of cases and targets.
func (r *Results) Overview() string {
	var b strings.Builder
	b.WriteString(r.provenance() + r.reservations())
	if all := r.Verdicts(); len(all) > 0 {
		b.WriteString("\n" + verdicts(all))
	}
	for _, f := range overview {
		info, _ := f.Info()
		if rows := r.matrix(info); len(rows) > 1 {
			b.WriteString("\n" + table(rows))
		}
	}
	return b.String()
}

// reservations are the lines that say how long the cases were measured, in which the machine was disturbed, and what must be known
// of a target.
func (r *Results) reservations() string {
	var lines []string
	cases := map[string][]string{} // by line
	add := func(line, name string) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
		if !slices.Contains(cases[line], name) {
			cases[line] = append(cases[line], name)
		}
	}
	for _, c := range r.Cases {
		if c.Seconds > 0 {
			add(fmt.Sprintf("%d rounds of %g s", c.Rounds, c.Seconds), c.Name)
		} else {
			add(fmt.Sprintf("rounds of other lengths, %d of them", c.Rounds), c.Name)
		}
	}
	for _, c := range r.Cases {
		for _, s := range c.Series {
			if s.Note != "" {
				add(s.Target+", "+s.Note, c.Name)
			}
		}
	}
	for _, c := range r.Cases {
		if slices.ContainsFunc(c.Series, func(s figures.Series) bool { return s.Disturbed() > 0 }) {
			add("rounds on a disturbed machine among those that count", c.Name)
		}
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "- %s: %s\n", line, strings.Join(cases[line], ", "))
	}
	return b.String()
}

// matrix has the cases as rows and the targets that have the figure as columns. Cases with targets of their own are left out.
func (r *Results) matrix(info figures.Info) [][]string {
	var common Results
	common.Cases = slices.DeleteFunc(slices.Clone(r.Cases), func(c Case) bool { return c.Own })
	targets := slices.DeleteFunc(common.Targets(), func(target string) bool {
		return !slices.ContainsFunc(common.Cases, func(c Case) bool { _, ok := c.value(target, info.Figure); return ok })
	})
	rows := [][]string{append([]string{info.Header()}, targets...)}
	for i := range common.Cases {
		c := &common.Cases[i]
		row, some := []string{c.Name}, false
		for _, target := range targets {
			cell := c.cell(target, info)
			row, some = append(row, cell), some || cell != none
		}
		if some {
			rows = append(rows, row)
		}
	}
	return rows
}
