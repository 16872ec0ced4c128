package console

import "strings"

// help is SHOW HELP: a notice, which psql prints as it is, as PgBouncer's.
func help() *statement {
	return &statement{run: func(s *session, _ *command) (result, error) {
		s.notice(&problem{code: codeSuccess, message: "Console usage", detail: usage()})
		return done("SHOW")
	}}
}

// usage lists views and commands, a tab before each line as in PgBouncer's.
func usage() string {
	var b strings.Builder
	const width = 90
	line := width
	for _, v := range append([]viewOf{{name: "HELP"}}, views...) {
		if line += len(v.name) + 1; line > width {
			b.WriteString("\n\tSHOW " + v.name)
			line = len(v.name)
			continue
		}
		b.WriteString("|" + v.name)
	}
	for _, c := range commands[1:] {
		b.WriteString("\n\t" + strings.ReplaceAll(c.usage, "\n", "\n\t"))
	}
	return b.String()
}
