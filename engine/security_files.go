package engine

// The files that the sections auth and tls name: read, and judged together with
// the settings.

import (
	"errors"
	"slices"
	"strings"

	"pgkinetic/configs"
	"pgkinetic/engine/auth"
	"pgkinetic/engine/auth/hba"
	"pgkinetic/engine/tlsconfig"
)

// ProblemsError is why settings do not hold: what is wrong in the files that they
// name, each with its place.
type ProblemsError []configs.Problem

// Error has one problem a line.
func (e ProblemsError) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// CheckSecurity reads the files as New and Reload do, and tells what is wrong with
// them; warnings, when nothing is, tell what in them is for nobody under these
// settings. origins may be nil.
func CheckSecurity(cfg *configs.Config, origins *configs.Origins) (problems, warnings []configs.Problem) {
	f, problems := readSecurityFiles(cfg, origins)
	if len(problems) > 0 || f.rules == nil {
		return problems, nil
	}
	t := &cfg.TLS
	return nil, f.rules.Doubts(hba.Circumstances{
		Socket: cfg.Server.UnixSocketDir != "",
		TLS:    t.ClientMode != configs.TLSDisable, OnlyTLS: t.ClientMode.Requires(), ClientCA: t.ClientCAFile != "",
		Secrets: f.users != nil || slices.ContainsFunc(cfg.Databases, func(d configs.Database) bool {
			query, _ := cfg.AuthQuery(&d)
			return query != ""
		}),
		Maps: f.maps,
	})
}

// securityFiles are those that are named, nil for those that are not; tls is there
// always.
type securityFiles struct {
	users *auth.Users
	rules *hba.Rules
	maps  *hba.Maps
	tls   *tlsconfig.Set
}

// readSecurityFiles reads all of them, whatever is wrong with one. What it gives is
// whole if there are no problems.
func readSecurityFiles(cfg *configs.Config, origins *configs.Origins) (f securityFiles, problems []configs.Problem) {
	place := func(setting string) configs.Place {
		if origins == nil {
			return configs.Place{}
		}
		return origins.Of(setting)
	}
	a := &cfg.Auth
	if a.UsersFile != "" {
		users, wrong := auth.LoadUsers(hba.System.Files, a.UsersFile, place("auth.users_file"))
		f.users, problems = users, append(problems, wrong...)
	}
	if a.Method == configs.AuthHBA {
		rules, wrong := hba.LoadRules(hba.System, a.HBAFile, place("auth.hba_file"))
		f.rules, problems = rules, append(problems, wrong...)
	}
	if a.IdentFile != "" {
		maps, wrong := hba.LoadMaps(hba.System, a.IdentFile, place("auth.ident_file"))
		f.maps, problems = maps, append(problems, wrong...)
	}
	var err error
	f.tls, err = tlsconfig.New(cfg.TLS)
	for _, wrong := range parts(err) {
		p := configs.Problem{Message: wrong.Error()}
		var file *tlsconfig.FileError
		if errors.As(wrong, &file) {
			p.Place = place(file.Setting)
		}
		problems = append(problems, p)
	}
	return f, problems
}

// parts takes an error apart that joins several; a nil error has none.
func parts(err error) (all []error) {
	joined, ok := err.(interface{ Unwrap() []error })
	switch {
	case err == nil:
		return nil
	case !ok:
		return []error{err}
	}
	for _, e := range joined.Unwrap() {
		all = append(all, parts(e)...)
	}
	return all
}
