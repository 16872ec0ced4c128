package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Source names the layer that a value came from.
type Source uint8

// The layers, lowest first.
const (
	SourceDefault Source = iota
	SourceFile
	SourceEnv
	SourceFlag
)

// String returns default, file, env or flag.
func (s Source) String() string { return [...]string{"default", "file", "env", "flag"}[s] }

// Place says where a value was written. Name is the file, the environment variable or the flag (with its dashes); Line
// and Col count from 1 and are 0 where there is no position.
type Place struct {
	Source    Source
	Name      string
	Line, Col int
}

// String returns file:line:col, "environment NAME", "--name" for a flag, or "default".
func (p Place) String() string {
	switch p.Source {
	case SourceEnv:
		return "environment " + p.Name
	case SourceFlag:
		return p.Name
	case SourceFile:
		if p.Line == 0 {
			return p.Name
		}
		return fmt.Sprintf("%s:%d:%d", p.Name, p.Line, p.Col)
	default:
		return "default"
	}
}

// Problem is one thing that is wrong, or (from Warnings) one that has no effect, with the place to change. The message
// names the setting and the remedy and never holds a secret.
type Problem struct {
	Place   Place
	Message string
}

// String returns "place: message"; for a file that is file:line:col: message.
func (p Problem) String() string { return p.Place.String() + ": " + p.Message }

// Origins tells for each setting where its value came from. It is made by Load and read-only afterwards.
type Origins struct {
	places map[string]Place
}

// Of returns the origin of a setting by its path, such as "server.max_clients" or "databases[0].hosts". A path that was
// written nowhere is a default.
func (o *Origins) Of(path string) Place { return o.places[path] }

// Set reports whether the setting was written anywhere, whatever its value.
func (o *Origins) Set(path string) bool { return o.places[path].Source != SourceDefault }

// drop forgets a list entry by entry, because a later layer replaces the list as a whole.
func (o *Origins) drop(list string) {
	for path := range o.places {
		if path == list || strings.HasPrefix(path, list+"[") {
			delete(o.places, path)
		}
	}
}

// sortProblems orders by layer, file and position: the order in which a reader meets them.
func sortProblems(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Place.Source != b.Place.Source {
			return int(a.Place.Source) - int(b.Place.Source)
		}
		if a.Place.Name != b.Place.Name {
			return strings.Compare(a.Place.Name, b.Place.Name)
		}
		if a.Place.Line != b.Place.Line {
			return a.Place.Line - b.Place.Line
		}
		return a.Place.Col - b.Place.Col
	})
}
