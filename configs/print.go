package configs

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Print writes the settings as YAML that Load reads again, with the origin of each as a comment; secrets are masked. Of
// the entries of lists it writes what is set or has a default.
func Print(w io.Writer, c *Config, o *Origins) error {
	var out bytes.Buffer
	p := printer{out: &out, origins: o}
	root := reflect.ValueOf(c).Elem()
	for i, section := range sections {
		if i > 0 {
			out.WriteByte('\n')
		}
		field := fieldByKey(root, section)
		switch {
		case !isList(section):
			fmt.Fprintf(&out, "%s:\n", section)
			p.settings(section, section, field, "  ", "  ")
		case field.Len() == 0:
			fmt.Fprintf(&out, "%s: [] # %s\n", section, origin(o.Of(section)))
		default:
			fmt.Fprintf(&out, "%s: # %s\n", section, origin(o.Of(section)))
			for i := range field.Len() {
				p.settings(section, entryAt(section, i), field.Index(i), "  - ", "    ")
			}
		}
	}
	_, err := w.Write(out.Bytes())
	return err
}

type printer struct {
	out     *bytes.Buffer
	origins *Origins
}

// settings writes the rows of one section or entry; first is the indent of its first line.
func (p *printer) settings(section, path string, values reflect.Value, first, indent string) {
	for _, o := range table.rows[section] {
		full := path + "." + o.Key
		if o.Kind == KindGroup {
			inner := printer{out: &bytes.Buffer{}, origins: p.origins}
			inner.settings(o.group(), full, fieldByKey(values, o.Key), indent+"  ", indent+"  ")
			if inner.out.Len() > 0 {
				fmt.Fprintf(p.out, "%s%s: # %s\n%s", first, o.Key, origin(p.origins.Of(full)), inner.out)
				first = indent
			}
			continue
		}
		text, ok := o.format(fieldByKey(values, o.Key))
		if o.Secret && !p.origins.Set(full) {
			text = `""` // what a password variable or file holds is not printed as password
		}
		if !ok || text == "" {
			continue
		}
		fmt.Fprintf(p.out, "%s%s: %s # %s\n", first, o.Key, text, origin(p.origins.Of(full)))
		first = indent
	}
}

// origin names a place as "file path:line:col", "env NAME", "flag --name" or "default".
func origin(p Place) string {
	switch p.Source {
	case SourceDefault:
		return p.Source.String()
	case SourceFile:
		return p.Source.String() + " " + p.String()
	default:
		return p.Source.String() + " " + p.Name
	}
}

// fieldByKey returns the field with a key as its koanf tag, looking into embedded structs too.
func fieldByKey(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("koanf")
		if tag == key {
			return v.Field(i)
		}
		if tag == ",squash" {
			if f := fieldByKey(v.Field(i), key); f.IsValid() {
				return f
			}
		}
	}
	return reflect.Value{}
}

// format writes a field as a YAML value; false when it is not set.
func (o *Option) format(v reflect.Value) (string, bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "", false
		}
		v = v.Elem()
	}
	switch {
	case o.Secret:
		return quoteYAML(Secret(v.String()).String()), true
	case o.Kind == KindSize:
		return strconv.Quote(formatSize(v.Int())), true
	case o.Kind == KindEnum:
		return v.String(), v.String() != ""
	case v.Kind() == reflect.String:
		return quoteYAML(v.String()), true
	case v.Kind() == reflect.Slice:
		return formatList(v), v.Len() > 0 || o.Default != nil
	case v.Kind() == reflect.Map:
		texts, ok := v.Interface().(map[string]string)
		return formatMap(texts), ok && len(texts) > 0
	default:
		return fmt.Sprint(v.Interface()), true
	}
}

func formatList(v reflect.Value) string {
	items := make([]string, v.Len())
	for i := range items {
		items[i] = quoteYAML(fmt.Sprint(v.Index(i).Interface()))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

func formatMap(texts map[string]string) string {
	items := make([]string, 0, len(texts))
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		items = append(items, quoteYAML(key)+": "+quoteYAML(texts[key]))
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// quoteYAML writes a text in double quotes; Go's escapes are all among YAML's.
func quoteYAML(s string) string { return strconv.Quote(s) }
