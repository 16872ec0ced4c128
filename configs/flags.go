package configs

import (
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// flagValue takes any text: the option table judges it, so that a wrong flag reads like a wrong line of the file.
type flagValue struct {
	texts []string
	kind  Kind
}

func (v *flagValue) Set(text string) error { v.texts = append(v.texts, text); return nil }
func (v *flagValue) String() string        { return strings.Join(v.texts, ",") }

// Type names the value in the usage text.
func (v *flagValue) Type() string {
	switch v.kind {
	case KindInt:
		return "int"
	case KindBool:
		return "bool"
	case KindStrings:
		return "list"
	case KindSize:
		return "size"
	default:
		return "string"
	}
}

// newFlagSet declares one flag per process-wide setting. Underscores are taken for dashes.
func newFlagSet() *pflag.FlagSet {
	fs := pflag.NewFlagSet("pg-kinetic", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	fs.SortFlags = false
	fs.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(strings.ReplaceAll(name, "_", "-"))
	})
	for _, o := range processOptions() {
		flag := fs.VarPF(&flagValue{kind: o.Kind}, o.Flag(), "", strings.ReplaceAll(o.Doc, "`", ""))
		if o.Kind == KindBool {
			flag.NoOptDefVal = "true"
		}
	}
	return fs
}

// FlagUsages returns the help text of all setting flags.
func FlagUsages() string { return newFlagSet().FlagUsages() }

// flags judges the command line's settings.
func (c *checker) flags(args []string) map[string]any {
	fs := c.parseFlags(slices.Clone(args))
	tree := map[string]any{}
	for _, o := range processOptions() {
		flag := fs.Lookup(o.Flag())
		if !flag.Changed {
			continue
		}
		if v, ok := flag.Value.(*flagValue); ok {
			c.assign(tree, o, v.texts, Place{Source: SourceFlag, Name: "--" + o.Flag()})
		}
	}
	return tree
}

// commandLine is the place of problems that no single flag has.
var commandLine = Place{Source: SourceFlag, Name: "command line"}

// parseFlags parses again without each argument that is at fault, so that every one of them is told.
func (c *checker) parseFlags(args []string) *pflag.FlagSet {
	for {
		fs := newFlagSet()
		err := fs.Parse(args)
		if err == nil {
			if n := fs.NArg(); n > 0 { // not shown: the value of an unknown flag may be among them
				c.problem(commandLine, "%d argument(s) that are no flags: settings are given as --section.name=value", n)
			}
			return fs
		}
		i := slices.IndexFunc(args, func(arg string) bool { return isFaulty(arg, err) })
		if i < 0 {
			c.problem(commandLine, "cannot be parsed: settings are given as --section.name=value")
			return newFlagSet()
		}
		c.faultyFlag(args[i], err)
		args = slices.Delete(args, i, i+1)
	}
}

// isFaulty reports whether an argument is the one that a parse error is about.
func isFaulty(arg string, err error) bool {
	var unknown *pflag.NotExistError
	var valueless *pflag.ValueRequiredError
	var syntax *pflag.InvalidSyntaxError
	switch {
	case errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() != "":
		return strings.TrimPrefix(arg, "-") == unknown.GetSpecifiedShortnames() && !strings.HasPrefix(arg, "--")
	case errors.As(err, &unknown):
		return cutValue(arg) == "--"+unknown.GetSpecifiedName()
	case errors.As(err, &valueless):
		return arg == "--"+valueless.GetSpecifiedName()
	case errors.As(err, &syntax):
		return strings.HasPrefix(arg, "--") && (len(arg) < 3 || arg[2] == '-' || arg[2] == '=')
	}
	return false
}

func (c *checker) faultyFlag(arg string, err error) {
	place := Place{Source: SourceFlag, Name: cutValue(arg)}
	var valueless *pflag.ValueRequiredError
	if errors.As(err, &valueless) {
		c.problem(place, "has no value: write %s=value", place.Name)
		return
	}
	for _, section := range sections {
		if isList(section) && strings.HasPrefix(strings.TrimLeft(arg, "-"), section) {
			c.problem(place, "%s has no flags: use the file or the variable %s", section, envName(section))
			return
		}
	}
	var names []string
	for _, o := range processOptions() {
		names = append(names, o.Flag())
	}
	c.problem(place, "no such flag; nearest known: --%s", Nearest(strings.TrimLeft(place.Name, "-"), names))
}

// cutValue returns a flag without its value, which may be secret.
func cutValue(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return cut(name)
}
