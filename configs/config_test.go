package configs

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// fields returns the koanf tags of a struct, embedded ones included, with their types.
func fields(v reflect.Type) map[string]reflect.Type {
	tags := map[string]reflect.Type{}
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Tag.Get("koanf") == ",squash" {
			for tag, kind := range fields(f.Type) {
				tags[tag] = kind
			}
			continue
		}
		tags[f.Tag.Get("koanf")] = f.Type
	}
	return tags
}

func TestOptionTableMatchesTheStructs(t *testing.T) {
	root := fields(reflect.TypeFor[Config]())
	if len(root) != len(sections) {
		t.Errorf("%d sections in the table, %d in Config", len(sections), len(root))
	}
	f := func(section string, structure reflect.Type) {
		if isList(section) {
			structure = structure.Elem()
		}
		keys := fields(structure)
		if len(keys) != len(table.rows[section]) {
			t.Errorf("%s: %d rows in the table, %d fields", section, len(table.rows[section]), len(keys))
		}
		for _, o := range table.rows[section] {
			if keys[o.Key] == nil {
				t.Errorf("%s has no field", o.Path())
			}
			if optional := keys[o.Key] != nil && keys[o.Key].Kind() == reflect.Pointer; isList(section) && optional && o.Default != nil {
				t.Errorf("%s can be unset and has a default", o.Path())
			}
		}
	}
	for _, section := range sections {
		f(section, root[section])
	}
	f(sectionMatch, reflect.TypeFor[RouteMatch]())
}

func TestOptionRowsAreComplete(t *testing.T) {
	for _, o := range Options() {
		if o.Doc == "" || strings.HasSuffix(o.Doc, ".") || o.Scope == 0 || o.Since == "" {
			t.Errorf("%s: doc %q, scope %d, since %q", o.Path(), o.Doc, o.Scope, o.Since)
		}
		if (o.Kind == KindInt || o.Kind == KindSize) && o.Max <= o.Min {
			t.Errorf("%s has no bounds", o.Path())
		}
		if (o.Kind == KindString || o.Kind == KindStrings || o.Kind == KindMap) && o.MaxLen <= 0 {
			t.Errorf("%s has no longest length", o.Path())
		}
		if (o.Kind == KindStrings || o.Kind == KindMap) && o.MaxItems <= 0 {
			t.Errorf("%s has no most items", o.Path())
		}
		if o.Scope&ScopeProcess != 0 && !isList(o.Section) && o.Default == nil {
			t.Errorf("%s has no default", o.Path())
		}
	}
}

// Each end of each bound is accepted by flag, and one beyond is refused.
func TestBoundsAreExact(t *testing.T) {
	f := func(o *Option, v int64, valid bool) {
		t.Helper()
		n := &node{scalar: rawScalar, text: formatSize(v)}
		if o.Kind == KindInt {
			n.text = strconv.FormatInt(v, 10)
		}
		if _, err := o.scalar(n); (err == nil) != valid {
			t.Errorf("%s = %s: %v, want valid: %v", o.Path(), n.text, err, valid)
		}
	}
	for _, o := range Options() {
		if o.Kind == KindInt || o.Kind == KindSize {
			f(o, o.Min, true)
			f(o, o.Max, true)
			f(o, o.Min-1, false)
			f(o, o.Max+1, false)
		}
	}
}

func TestEffectiveTakesTheMostSpecific(t *testing.T) {
	limits, capacity, route := reflect.TypeFor[Limits](), reflect.TypeFor[Capacity](), reflect.TypeFor[RouteLimits]()
	if limits.NumField() != capacity.NumField()-1 { // max_checkout_waiters is the process's
		t.Errorf("Limits has %d fields, Capacity %d", limits.NumField(), capacity.NumField())
	}
	c := Default()
	for i := range limits.NumField() {
		name := limits.Field(i).Name
		db, user, rule := &Database{}, &User{}, &Route{}
		set := func(limits any, number int, text string) bool {
			field := reflect.ValueOf(limits).Elem().FieldByName(name)
			switch {
			case !field.IsValid():
				return false
			case field.Type().Elem().Kind() == reflect.String:
				field.Set(reflect.ValueOf(&text))
			case field.Type().Elem().Kind() == reflect.Bool: // the user's is the other one
				on := number == 7
				field.Set(reflect.ValueOf(&on))
			default:
				field.Set(reflect.ValueOf(&number))
			}
			return true
		}
		effective := func(db *Database, user *User, rule *Route) any {
			return reflect.ValueOf(c.Effective(db, user, rule)).FieldByName(name).Interface()
		}
		base := reflect.ValueOf(c.Capacity).FieldByName(name).Interface()
		set(&db.Limits, 7, "D")
		set(&user.Limits, 9, "U")
		got := []any{effective(nil, nil, nil), effective(db, nil, nil), effective(nil, user, nil), effective(db, user, nil), effective(db, &User{}, rule)}
		want := []any{base, 7, 9, 9, 7}
		if _, text := base.(string); text {
			want = []any{base, "D", "U", "U", "D"}
		}
		if _, flag := base.(bool); flag {
			want = []any{base, true, false, false, true}
		}
		if name == "MaxBackends" { // caps of their own beside the host's
			want = []any{base, base, base, base, base}
		}
		if set(&rule.RouteLimits, 11, "R") {
			got = append(got, effective(nil, nil, rule), effective(db, user, rule))
			if _, text := base.(string); text {
				want = append(want, "R", "R")
			} else {
				want = append(want, 11, 11)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	for i := range route.NumField() {
		if _, ok := limits.FieldByName(route.Field(i).Name); !ok {
			t.Errorf("%s of RouteLimits is no limit", route.Field(i).Name)
		}
	}
}

func TestLookups(t *testing.T) {
	c := &Config{
		Server:    Server{PoolMode: PoolModeTransaction},
		Databases: []Database{{Name: "*"}, {Name: "app", PoolMode: PoolModeSession, DBName: "real", User: "owner"}},
		Users:     []User{{Name: "u", PoolMode: PoolModeStatement}},
	}
	if c.Database("app").Name != "app" || c.Database("other").Name != "*" || c.Database("*").Name != "*" {
		t.Error("an exact name does not go before *")
	}
	if (&Config{Databases: c.Databases[1:]}).Database("other") != nil {
		t.Error("a database without an entry has one")
	}
	if c.User("u") == nil || c.User("v") != nil {
		t.Error("users by name")
	}
	app, u := c.Database("app"), c.User("u")
	modes := []PoolMode{c.PoolMode(nil, nil), c.PoolMode(app, nil), c.PoolMode(app, u), c.PoolMode(c.Database("x"), nil)}
	if !reflect.DeepEqual(modes, []PoolMode{PoolModeTransaction, PoolModeSession, PoolModeStatement, PoolModeTransaction}) {
		t.Errorf("modes: %v", modes)
	}
	if app.ServerDatabase("app") != "real" || app.ServerUser("u") != "owner" {
		t.Error("fixed names do not hold")
	}
	if star := c.Database("x"); star.ServerDatabase("x") != "x" || star.ServerUser("u") != "u" {
		t.Error("asked names do not pass")
	}
}

func TestNearest(t *testing.T) {
	f := func(word, want string, candidates ...string) {
		t.Helper()
		if got := Nearest(word, candidates); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
	f("max_cilents", "max_clients", "loops", "max_pools", "max_clients")
	f("LOOPS", "loops", "pools", "loops")
	f("pool-mode", "pool_mode", "pool_size", "pool_mode")
	f("", "a", "bbb", "a")
	f("x", "")
	f(strings.Repeat("x", 1<<20), "ab", "ab", "abc")
	f("CAPACITY.MAX_ROUTE_WAITER", "capacity.max_route_waiters", "capacity.max_route_in_flight", "capacity.max_route_waiters", "bulk")
	if got := distance("kitten", "sitting"); got != 3 {
		t.Errorf("%d edits", got)
	}
	for _, c := range []struct {
		a, b string
		d    int
	}{{"kitten", "sitting", 3}, {"", "abc", 3}, {"abc", "", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if d := distance(c.a, c.b); d != c.d {
			t.Errorf("distance(%q, %q) = %d, want %d", c.a, c.b, d, c.d)
		}
	}
}
