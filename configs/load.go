package configs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"
)

// maxFile is the largest settings file that is read.
const maxFile = 4 << 20

// Default returns the settings without file, environment and flags. Nobody could log in by them: see Incomplete.
func Default() *Config {
	c, _, problems := Load("", nil, nil)
	if len(problems) > 0 {
		panic(fmt.Sprintf("BUG: the defaults are not valid: %v", problems))
	}
	return c
}

// Load reads the file at path (none when it is empty), the environment (as of os.Environ) and the flags
// (--section.name=value), each over the one before and all over the defaults. It reads password files and password
// variables too. Every problem of every layer is returned, in the order in which a reader meets them; with any, the
// Config is nil. The Origins are never nil. Nothing outside its arguments and the named files is read, nothing is kept.
func Load(path string, environ, flags []string) (*Config, *Origins, []Problem) {
	l := loader{origins: &Origins{places: map[string]Place{}}, environ: variables(environ), merged: newLayers()}
	l.layer(func(*checker) map[string]any { return defaults() })
	if path != "" {
		l.layer(func(c *checker) map[string]any { return c.file(path) })
	}
	l.layer(func(c *checker) map[string]any { return c.environment(l.environ, l.passwordVariables()) })
	l.layer(func(c *checker) map[string]any { return c.flags(flags) })
	config := l.decode()
	if config != nil {
		l.relate(config)
	}
	if len(l.problems) > 0 {
		sortProblems(l.problems)
		return nil, l.origins, l.problems
	}
	return config, l.origins, nil
}

// newLayers returns an empty stack of layers.
func newLayers() *koanf.Koanf { return koanf.New(".") }

// loader is the state of one Load.
type loader struct {
	origins  *Origins
	environ  map[string]string
	merged   *koanf.Koanf // the layers so far
	problems []Problem
}

// layer lets a checker read one layer and puts its values over those before.
func (l *loader) layer(read func(*checker) map[string]any) {
	c := &checker{origins: map[string]Place{}}
	tree := read(c)
	l.problems = append(l.problems, c.problems...)
	for section := range tree {
		if isList(section) {
			l.origins.drop(section)
		}
	}
	for path, place := range c.origins {
		l.origins.places[path] = place
	}
	l.put(tree)
}

func (l *loader) put(tree map[string]any) {
	if err := l.merged.Load(confmap.Provider(tree, ""), nil); err != nil {
		l.problems = append(l.problems, Problem{Message: "BUG: layers do not merge: " + err.Error()})
	}
}

// passwordVariables returns the variables that the file's or the environment's entries name as their password's.
func (l *loader) passwordVariables() map[string]bool {
	names := map[string]bool{}
	collect := func(list any) {
		entries, _ := list.([]any)
		for _, e := range entries {
			values, _ := e.(map[string]any)
			if name, ok := values["password_env"].(string); ok {
				names[name] = true
			}
		}
	}
	collect(l.merged.Get(sectionDatabases))
	probe := &checker{origins: map[string]Place{}}
	if text, ok := l.environ[envName(sectionDatabases)]; ok {
		entries, _ := probe.jsonList(sectionDatabases, text, Place{}) // its problems are told by the layer itself
		collect(entries)
	}
	return names
}

// decode turns the merged layers into the typed settings; nil when they do not fit, which the table rules out.
func (l *loader) decode() *Config {
	tree := map[string]any{}
	for _, section := range lists {
		list, _ := l.merged.Get(section).([]any)
		if section == sectionDatabases && len(list) == 0 {
			list = defaultDatabases()
		}
		for _, e := range list {
			if values, ok := e.(map[string]any); ok {
				fillEntry(section, values)
			}
		}
		tree[section] = list
	}
	l.put(tree)
	var c Config
	err := l.merged.UnmarshalWithConf("", &c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: &c, TagName: "koanf", ErrorUnused: true,
		DecodeHook: mapstructure.TextUnmarshallerHookFunc(),
	}})
	if err == nil {
		if len(c.Users) == 0 {
			c.Users = nil // an empty list and none are the same settings
		}
		if len(c.Routes) == 0 {
			c.Routes = nil
		}
		return &c
	}
	if len(l.problems) == 0 {
		l.problems = append(l.problems, Problem{Message: "BUG: settings do not decode"})
	}
	return nil
}

// file reads and judges the settings file.
func (c *checker) file(path string) map[string]any {
	base := Place{Source: SourceFile, Name: path}
	data, err := readFile(path, maxFile)
	if err != nil {
		c.problem(base, "cannot be read: %s", err)
		return nil
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if at := invalidUTF8(data); at >= 0 {
		place := base
		place.Line = 1 + bytes.Count(data[:at], []byte("\n"))
		place.Col = at - bytes.LastIndexByte(data[:at], '\n')
		c.problem(place, "not UTF-8 (byte 0x%02x): save the file as UTF-8", data[at])
		return nil
	}
	parse := parseYAML
	if strings.EqualFold(filepath.Ext(path), ".toml") {
		parse = parseTOML
	}
	root, problems := parse(data, base)
	tree := c.document(root)
	for _, p := range problems {
		if !c.toldAt(p.Place.Line) {
			c.problems = append(c.problems, p)
		}
	}
	return tree
}

// toldAt reports whether a line has a problem already: the parser's about the same line would repeat it.
func (c *checker) toldAt(line int) bool {
	for _, p := range c.problems {
		if p.Place.Line == line {
			return true
		}
	}
	return false
}

// readFile reads a file of bounded size. The error is without the path, which the caller has. A pipe is read while somebody
// writes into it; opening it does not wait for that, so that a reload finds the pipe of a shell (<(…)) used up instead of
// waiting for ever.
func readFile(path string, most int64) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }() // read only: nothing to lose
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, withoutPath(err)
	case info.IsDir():
		return nil, errors.New("it is a directory: name a file")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	switch {
	case int64(len(data)) > most:
		return nil, fmt.Errorf("it has more than %d bytes", most)
	case len(data) == 0 && info.Mode()&fs.ModeNamedPipe != 0:
		return nil, errors.New("it is a pipe into which nobody writes any more: name a regular file, which can be read again")
	}
	return data, nil
}

func withoutPath(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// invalidUTF8 returns the offset of the first byte that is not UTF-8, or -1.
func invalidUTF8(data []byte) int {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}
