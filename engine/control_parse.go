package engine

// Single settings as text: configs judges them, in its own words, as a flag or as
// an entry of routes.

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"pgkinetic/configs"
)

// settable lists the settings that SetLimit can change. Not among them: how a
// backend is cleaned, which is part of a pool.
func settable() (names []string) {
	for _, o := range configs.Options() {
		if (o.Section == "capacity" || o.Section == "admission") && o.Path() != "capacity.reset_query" {
			names = append(names, o.Path())
		}
	}
	return names
}

// parseLimit judges value as that of a setting of capacity or admission, and
// gives a configuration that has it.
func parseLimit(now *configs.Config, name, value string) (*configs.Config, error) {
	i := slices.IndexFunc(configs.Options(), func(o *configs.Option) bool {
		return o.Path() == name && (o.Section == "capacity" || o.Section == "admission")
	})
	if i < 0 {
		return nil, unknown("setting", name, settable())
	}
	flags := []string{flag(name, value)}
	switch name { // these two are judged together
	case "admission.application_name_pattern":
		flags = append(flags, flag("admission.application_name_replace", now.Admission.ApplicationNameReplace))
	case "admission.application_name_replace":
		flags = append(flags, flag("admission.application_name_pattern", now.Admission.ApplicationNamePattern))
	}
	cfg, _, problems := configs.Load("", nil, flags)
	if len(problems) > 0 {
		return nil, told(problems)
	}
	return cfg, nil
}

func flag(name, value string) string {
	return "--" + strings.ReplaceAll(name, "_", "-") + "=" + value
}

func told(problems []configs.Problem) error {
	var all []error
	for _, p := range problems {
		all = append(all, errors.New(p.Message))
	}
	return errors.Join(all...)
}

// routeSettings are what SetRoute can change.
func routeSettings() (keys []string) {
	for _, o := range configs.Options() {
		if o.Section == "routes" && !slices.Contains([]string{"name", "match", "split_by"}, o.Key) {
			keys = append(keys, o.Key)
		}
	}
	return keys
}

// parseRouteSetting judges value as that of a setting of an entry of routes, and
// gives an entry that has it.
func parseRouteSetting(name, setting, value string) (*configs.Route, error) {
	keys := routeSettings()
	if !slices.Contains(keys, setting) {
		if slices.Contains([]string{"name", "match", "split_by"}, setting) {
			return nil, fmt.Errorf("%s says which route it is: change the settings and reload", setting)
		}
		return nil, unknown("setting of a route", setting, keys)
	}
	text := json.RawMessage(value)
	if n := json.Number(value); !isNumber(n) {
		text, _ = json.Marshal(value) // a text always becomes JSON
	}
	entry, _ := json.Marshal(map[string]any{"name": "r", setting: text})
	cfg, _, problems := configs.Load("", []string{"PG_KINETIC_ROUTES=[" + string(entry) + "]"}, nil)
	if len(problems) > 0 {
		for i := range problems {
			problems[i].Message = strings.Replace(problems[i].Message, "routes[0].", fmt.Sprintf("route %q: ", name), 1)
		}
		return nil, told(problems)
	}
	return &cfg.Routes[0], nil
}

func isNumber(n json.Number) bool {
	if _, err := n.Int64(); err != nil {
		return false
	}
	return json.Valid([]byte(n))
}

// field gives the field of a struct of configs by its key, embedded ones included;
// the zero Value if there is none.
func field(v reflect.Value, key string) reflect.Value {
	for i := range v.NumField() {
		switch v.Type().Field(i).Tag.Get("koanf") {
		case key:
			return v.Field(i)
		case ",squash":
			if f := field(v.Field(i), key); f.IsValid() {
				return f
			}
		}
	}
	return reflect.Value{}
}

// assign copies the field with a key from one struct of configs to another.
func assign[T any](to, from *T, key string) {
	field(reflect.ValueOf(to).Elem(), key).Set(field(reflect.ValueOf(from).Elem(), key))
}

// overlay copies what is set of a route's settings over another's.
func overlay(to, set *configs.Route) {
	for _, key := range routeSettings() {
		if !field(reflect.ValueOf(set).Elem(), key).IsZero() {
			assign(to, set, key)
		}
	}
}

// capacityValue gives a limit by its key.
func capacityValue(c *configs.Capacity, key string) any {
	return field(reflect.ValueOf(c).Elem(), key).Interface()
}
