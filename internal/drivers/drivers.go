package main

// Every program exercises these, under these names; docs/drivers.md tells what each of them means.
var shared = []string{"prepare", "workers", "error", "transaction", "copy", "cancel", "types", "listen", "setting"}

// moved is judged here and not by the programs: under contention one session must have been served by several backends.
const moved = "moved"

// driver is one client library: what it needs, how its program is started, what it is expected to show.
type driver struct {
	name     string // of its folder, and of ONLY=
	title    string // in the table
	kind     kind
	variants []string          // arguments of the program, a row of the table each; none: one row
	own      []string          // capabilities beyond the shared ones, for every variant
	lacks    map[string]string // shared capabilities that the library does not offer, and why
	fetch    []string          // packages by name and version, where no file of the folder holds them
}

func (d *driver) expected() []string {
	var all []string
	for _, c := range shared {
		if _, no := d.lacks[c]; !no {
			all = append(all, c)
		}
	}
	return append(all, d.own...)
}

const played = "played by hand: shown by the other programs"

var drivers = []driver{
	{
		name: "pgx", title: "pgx (Go)", kind: golang, own: []string{"batch", "login", "console"},
		variants: []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"},
	},
	{
		name: "psycopg3", title: "psycopg 3 (Python)", kind: python, own: []string{"pipeline", "cursor", "console"},
		variants: []string{"prepare_threshold=5", "prepare_threshold=0"},
	},
	{
		name: "asyncpg", title: "asyncpg (Python)", kind: python, own: []string{"cursor", "console"},
		variants: []string{"statement_cache_size=100", "statement_cache_size=0"},
	},
	{
		name: "node-postgres", title: "node-postgres (JavaScript)", kind: node, own: []string{"cursor", "stream", "login", "console"},
	},
	{
		name: "pgjdbc", title: "pgjdbc (Java)", kind: java, own: []string{"batch", "cursor", "login", "console"},
		variants: []string{"prepareThreshold=1", "prepareThreshold=5", "prepareThreshold=0"},
		fetch:    []string{"org.postgresql:postgresql:42.7.14"},
	},
	{
		name: "libpq", title: "libpq (C)", kind: clang, own: []string{"pipeline"},
	},
	{
		name: "npgsql", title: "Npgsql's reset, packed before the next command (raw protocol)", kind: golang, own: []string{"reset"},
		lacks: map[string]string{"copy": played, "cancel": played, "types": played, "listen": played},
	},
	{
		name: "pq", title: "lib/pq (Go)", kind: golang,
		variants: []string{"binary_parameters=no", "binary_parameters=yes"},
	},
	{
		name: "psycopg2", title: "psycopg2 (Python)", kind: python, own: []string{"cursor", "console"},
	},
	{
		name: "sqlalchemy", title: "SQLAlchemy (Python)", kind: python, own: []string{"stream"},
		variants: []string{"psycopg", "asyncpg"},
		lacks:    map[string]string{"listen": "no such interface"},
	},
	{
		name: "django", title: "Django (Python)", kind: python, own: []string{"iterator"},
		lacks: map[string]string{"listen": "no such interface"},
	},
	{
		name: "postgresjs", title: "postgres.js (JavaScript)", kind: node, own: []string{"pipeline", "cursor", "console"},
		variants: []string{"prepare=true", "prepare=false"},
	},
	{
		name: "prisma", title: "Prisma (JavaScript)", kind: node,
		lacks: map[string]string{
			"copy": "no such interface", "cancel": "no such interface", "listen": "no such interface",
		},
	},
	{
		name: "tokio-postgres", title: "tokio-postgres (Rust)", kind: rust, own: []string{"pipeline"},
	},
	{
		name: "sqlx", title: "sqlx (Rust)", kind: rust,
		lacks: map[string]string{"cancel": "no such interface"},
	},
}
