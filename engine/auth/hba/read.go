package hba

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"pgkinetic/configs"
)

// Bounds of what one load reads, its included files with it.
const (
	maxFileBytes = 1 << 20
	maxFileLines = 10_000
	maxFiles     = 256
	maxWords     = 100_000
	maxDepth     = 10 // of files within files; PostgreSQL's
	maxProblems  = 100
)

// Source is what the files are read from. File names are those of the operating
// system; a name within a file is relative to that file's directory.
type Source struct {
	Files fs.FS
	// Interfaces returns the addresses of this machine's network interfaces with
	// their networks, as net.InterfaceAddrs does; for samehost and samenet.
	Interfaces func() ([]net.Addr, error)
}

// System is this machine.
var System = Source{Files: disk{}, Interfaces: net.InterfaceAddrs}

// disk is the machine's file system under its own names, which fs.ValidPath would
// not allow.
type disk struct{}

func (disk) Open(name string) (fs.File, error)     { return os.Open(name) }
func (disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// record is a line with at least one field. A field whose @file is empty has no
// words.
type record struct {
	fields []field
	place  configs.Place
	end    configs.Place // behind the last word
	bad    bool          // a problem was found in it, so it means nothing
}

// reader takes files apart. Its owner is one load; it is not used afterwards.
type reader struct {
	files    fs.FS
	problems []configs.Problem
	opened   int // files, at most maxFiles
	words    int // at most maxWords
	spent    bool
}

// fail notes a problem; beyond maxProblems only that there are more.
func (r *reader) fail(at configs.Place, format string, args ...any) {
	switch {
	case len(r.problems) < maxProblems:
		r.problems = append(r.problems, configs.Problem{Place: at, Message: fmt.Sprintf(format, args...)})
	case len(r.problems) == maxProblems:
		r.problems = append(r.problems, configs.Problem{Place: at, Message: "more problems from here on are not listed"})
		r.spent = true
	}
}

// exhaust ends the load, because a bound is reached.
func (r *reader) exhaust(at configs.Place, format string, args ...any) {
	if !r.spent {
		r.fail(at, format, args...)
		r.spent = true
	}
}

// file returns the records of a file and of those that it includes, in the order
// in which they count. from is where the file is named.
func (r *reader) file(name string, depth int, from configs.Place) []record {
	text, err := r.text(name, depth, from)
	if err != nil {
		r.fail(from, "cannot read %q: %v", name, err)
	}
	return r.records(name, text, depth)
}

// text returns what is in a file.
func (r *reader) text(name string, depth int, from configs.Place) (string, error) {
	if depth > maxDepth {
		return "", fmt.Errorf("files include each other more than %d deep", maxDepth)
	}
	if r.opened++; r.opened > maxFiles {
		r.exhaust(from, "more than %d files are included", maxFiles)
		return "", nil
	}
	info, err := fs.Stat(r.files, name)
	if err != nil {
		return "", reason(err)
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for its writer
		return "", errors.New("it is not a regular file")
	}
	f, err := r.files.Open(name)
	if err != nil {
		return "", reason(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", reason(err)
	}
	if len(text) > maxFileBytes {
		return "", fmt.Errorf("it is larger than %d bytes", maxFileBytes)
	}
	return string(text), nil
}

// reason is an error of the file system without the file's name.
func reason(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// records takes the text of a file apart.
func (r *reader) records(name, text string, depth int) []record {
	var all []record
	var l logical
	for number := 1; text != "" && !r.spent; number += len(l.starts) {
		l, text = cutLine(name, text, number)
		if number > maxFileLines {
			r.exhaust(l.start(), "the file has more than %d lines", maxFileLines)
			break
		}
		if at := strings.IndexByte(l.text, 0); at >= 0 {
			r.fail(l.place(at), "a zero byte is not text")
			break
		}
		switch rec := r.record(l, depth); {
		case len(rec.fields) == 0, rec.bad:
		case isInclude(rec):
			all = append(all, r.include(rec, depth)...)
		default:
			all = append(all, rec)
		}
	}
	return all
}

func (r *reader) record(l logical, depth int) record {
	s := scanner{logical: l}
	rec := record{place: l.start(), end: l.place(len(l.text))}
	before := len(r.problems)
	for {
		f, ok := r.field(&s, depth)
		if !ok {
			rec.bad = len(r.problems) > before
			return rec
		}
		rec.fields = append(rec.fields, f)
	}
}

// field returns the next field of a line, with the words of an @file in its place.
func (r *reader) field(s *scanner, depth int) (f field, ok bool) {
	for more := true; more && !r.spent; {
		var w scanned
		if w, more = s.next(); !more {
			break
		}
		ok, more = true, w.comma
		if w.open {
			r.fail(w.place, "its quotes are not closed")
		}
		if r.words++; r.words > maxWords {
			r.exhaust(w.place, "more than %d values in all", maxWords)
		}
		if !w.quoted && len(w.text) > 1 && w.text[0] == '@' {
			for _, rec := range r.file(beside(w.place.Name, w.text[1:]), depth+1, w.place) {
				for _, included := range rec.fields {
					f = append(f, included...)
				}
			}
			continue
		}
		f = append(f, w.word)
	}
	return f, ok
}

// beside is the name of a file that is named in another one.
func beside(file, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(filepath.Dir(file), name)
}

// The directives that read other files.
const (
	directiveInclude  = "include"
	directiveIfExists = "include_if_exists"
	directiveDir      = "include_dir"
)

func isInclude(rec record) bool {
	if len(rec.fields[0]) != 1 {
		return false
	}
	switch rec.fields[0][0].text {
	case directiveInclude, directiveIfExists, directiveDir:
		return true
	}
	return false
}

// include returns the records of what an include directive names.
func (r *reader) include(rec record, depth int) []record {
	directive := rec.fields[0][0]
	if len(rec.fields) != 2 || len(rec.fields[1]) != 1 {
		r.fail(directive.place, "%s takes one name", directive.text)
		return nil
	}
	named := rec.fields[1][0]
	name := beside(named.place.Name, named.text)
	if strings.TrimSpace(named.text) == "" {
		r.fail(named.place, "%s takes a name that is not empty", directive.text)
		return nil
	}
	switch directive.text {
	case directiveDir:
		return r.directory(name, depth, named.place)
	case directiveIfExists:
		if _, err := fs.Stat(r.files, name); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return r.file(name, depth+1, named.place)
}

// directory returns the records of a directory's files, by the order of their
// names in bytes: those whose names end with ".conf" and do not begin with a dot.
func (r *reader) directory(name string, depth int, from configs.Place) []record {
	entries, err := fs.ReadDir(r.files, name)
	if err != nil {
		r.fail(from, "cannot read the directory %q: %v", name, reason(err))
		return nil
	}
	var all []record
	for _, entry := range entries { // sorted by name
		file := filepath.Join(name, entry.Name())
		base, ok := strings.CutSuffix(entry.Name(), ".conf")
		if !ok || base == "" || base[0] == '.' {
			continue
		}
		if info, err := fs.Stat(r.files, file); err == nil && info.IsDir() {
			continue
		}
		all = append(all, r.file(file, depth+1, from)...)
	}
	return all
}
