package routing

import (
	"fmt"
	"regexp"
	"testing"
)

func benchTable() *Table {
	return NewTable(Options{Key: AllParts, Rules: []Rule{
		{Name: "batch", Application: []string{"batch*", "*-cron"}},
		{Name: "office", Addrs: prefixes("10.0.0.0/8", "2001:db8::/32"), SplitBy: PartAddr},
		{Name: "ddl", Classes: ClassMaintenance.Set()},
		{Name: "api", Application: []string{"*api*"}, SplitBy: PartUser | PartClass},
	}})
}

func BenchmarkIdentify(b *testing.B) {
	table := benchTable()
	for _, application := range []string{"api-worker", "web"} {
		b.Run(application, func(b *testing.B) {
			k := request(application, "192.0.2.7", ClassRead)
			b.ReportAllocs()
			for b.Loop() {
				table.Identify(&k)
			}
		})
	}
}

func BenchmarkNormalize(b *testing.B) {
	table := NewTable(Options{Pattern: regexp.MustCompile(`-[0-9a-f]{8}$`)})
	b.ReportAllocs()
	for b.Loop() {
		table.Normalize("web-0123abcd")
	}
}

func BenchmarkGlob(b *testing.B) {
	g := compileGlob("*a*b*c*d*e*f*g*h*")
	b.ReportAllocs()
	for b.Loop() {
		g.match("the quick brown fox jumps over the lazy dog and so on")
	}
}

// BenchmarkIntern: a route that is there; a new one in place of the tenant's oldest; none to be had because all are in use.
func BenchmarkIntern(b *testing.B) {
	const most = 10_000
	names := make([]Identity, 4*most)
	for i := range names {
		names[i] = named(fmt.Sprint("application", i))
	}
	who := Tenant{"db", "user"}
	run := func(name string, use bool, cycle int) {
		b.Run(name, func(b *testing.B) {
			d := NewDirectory(fakeOptions(most))
			for i := range most {
				if f := d.Intern(1, names[i], who); use {
					f.use()
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				d.Intern(1, names[i%cycle], who)
			}
		})
	}
	run("hit", true, most/2)
	run("recycle", false, len(names))
	run("overflow", true, len(names))
}

func BenchmarkSweep(b *testing.B) {
	o := fakeOptions(10_000)
	o.Forget = func(*fake) bool { return false }
	d := NewDirectory(o)
	for i := range 10_000 {
		d.Intern(1, named(fmt.Sprint(i)), Tenant{"db", fmt.Sprint(i % 100)})
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Sweep(1000)
	}
}
