package main

import (
	"errors"
	"log/slog"

	"pgkinetic/configs"
	"pgkinetic/engine"
)

// source says where the settings come from: what is read at the start, and again at each reload.
type source struct {
	path           string // of the file; empty: none
	environ, flags []string
}

// loaded are settings with which clients can be served, and the files that they name are good.
type loaded struct {
	cfg     *configs.Config
	origins *configs.Origins
	doubts  []configs.Problem // of the files
	files   looks             // at those that the settings come from, before they were read
}

// load reads the settings and the files that they name. The error is an engine.ProblemsError; then l has the files alone, as
// far as they are known, those known before among them.
func (s source) load(known ...string) (l loaded, err error) {
	l.files = looks{}
	if s.path != "" {
		l.files.add(s.path)
	}
	l.files.add(known...)
	cfg, origins, problems := configs.Load(s.path, s.environ, s.flags)
	if len(problems) > 0 {
		return l, engine.ProblemsError(problems)
	}
	named := configs.Files(cfg)
	l.files.add(named...)
	problems, doubts := engine.CheckSecurity(cfg, origins)
	if problems = append(configs.Incomplete(cfg, origins), problems...); len(problems) > 0 {
		return l, engine.ProblemsError(problems)
	}
	l.files.keep(append(named, s.path))
	l.cfg, l.origins, l.doubts = cfg, origins, doubts
	return l, nil
}

// warnings tells what is valid and has no effect, or an odd one. hard is the system's hard limit of file descriptors, 0 where
// it is no matter.
func (l *loaded) warnings(hard uint64) []configs.Problem {
	return append(configs.Warnings(l.cfg, l.origins, hard), l.doubts...)
}

// ready logs what is doubtful and makes room for the file descriptors that the settings need; the limits among them may be
// lowered to what the system grants.
func (l *loaded) ready(log *slog.Logger) error {
	for _, w := range l.warnings(0) {
		log.Warn("doubtful setting", "place", w.Place.String(), "reason", w.Message)
	}
	fitted, err := fitDescriptors(l.cfg, l.origins, hardDescriptorLimit(), log)
	if err == nil {
		l.cfg = fitted
	}
	return err
}

// logFailure writes one line for each problem.
func logFailure(log *slog.Logger, what string, err error) {
	var problems engine.ProblemsError
	if !errors.As(err, &problems) {
		log.Error(what, "error", err)
	}
	for _, p := range problems {
		log.Error(what, "place", p.Place.String(), "error", p.Message)
	}
}
