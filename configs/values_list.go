package configs

import (
	"fmt"
	"reflect"
	"strings"
)

// Value is one setting as it holds, in words.
type Value struct {
	Path    string // such as server.max_clients or databases[0].name
	Text    string // secrets masked; lists separated by ", "
	Default string // empty where there is none
	Option  *Option
}

// Values returns every setting: those of the process, and of the entries of lists those that are set or have a default. The
// order is that of Print.
func Values(c *Config) (all []Value) {
	root := reflect.ValueOf(c).Elem()
	for _, section := range sections {
		field := fieldByKey(root, section)
		if !isList(section) {
			all = appendValues(all, section, section, field)
			continue
		}
		for i := range field.Len() {
			all = appendValues(all, section, entryAt(section, i), field.Index(i))
		}
	}
	return all
}

func appendValues(all []Value, section, path string, values reflect.Value) []Value {
	for _, o := range table.rows[section] {
		full, field := path+"."+o.Key, fieldByKey(values, o.Key)
		if o.Kind == KindGroup {
			all = appendValues(all, o.group(), full, field)
			continue
		}
		text, set := o.words(field)
		if !set && o.Default == nil {
			continue
		}
		v := Value{Path: full, Text: text, Option: o}
		if o.Default != nil {
			v.Default, _ = o.words(reflect.ValueOf(o.Default))
		}
		all = append(all, v)
	}
	return all
}

// words is format for people: without quotes.
func (o *Option) words(v reflect.Value) (text string, set bool) {
	switch {
	case o.Secret:
		return Secret(v.String()).String(), v.Len() > 0
	case v.Kind() == reflect.String:
		return v.String(), v.Len() > 0
	case v.Kind() == reflect.Slice:
		items := make([]string, v.Len())
		for i := range items {
			items[i] = fmt.Sprint(v.Index(i).Interface())
		}
		return strings.Join(items, ", "), v.Len() > 0
	case o.Kind == KindSize:
		return formatSize(v.Int()), true
	}
	return o.format(v)
}
