// Package guide keeps the guides in docs true: what they show is loaded, run or computed here. It has tests only.
package guide

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
	"pgkinetic/internal/pooler"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// A page is a guide, by its path.
type page string

const (
	overload page = "../../docs/overload.md"
	sessions page = "../../docs/sessions.md"
)

func (p page) text(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(string(p))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var fence = regexp.MustCompile("(?ms)^( *)```([a-z]*)\n(.*?)^ *```$")

// blocks are the guide's blocks in a language, without the indentation of the list they stand in.
func (p page) blocks(t *testing.T, language string) []string {
	t.Helper()
	var all []string
	for _, m := range fence.FindAllStringSubmatch(p.text(t), -1) {
		if m[2] == language {
			all = append(all, strings.TrimPrefix(strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n"), "\n"))
		}
	}
	if len(all) == 0 {
		t.Fatalf("the guide has no block in %q", language)
	}
	return all
}

// block is the guide's only block in a language that holds a text.
func (p page) block(t *testing.T, language, text string) string {
	t.Helper()
	found := ""
	for _, b := range p.blocks(t, language) {
		if strings.Contains(b, text) {
			if found != "" {
				t.Fatalf("two blocks in %q hold %q", language, text)
			}
			found = b
		}
	}
	if found == "" {
		t.Fatalf("no block in %q holds %q", language, text)
	}
	return found
}

// table is the guide's table whose heading begins with a text, row by row.
func (p page) table(t *testing.T, heading string) [][]string {
	t.Helper()
	_, rest, ok := strings.Cut(p.text(t), "\n| "+heading)
	if !ok {
		t.Fatalf("the guide has no table %q", heading)
	}
	var rows [][]string
	for i, line := range strings.Split(rest, "\n") {
		if i < 2 {
			continue // the heading's rest, the rule below it
		}
		if !strings.HasPrefix(line, "|") {
			break
		}
		var cells []string
		for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		rows = append(rows, cells)
	}
	return rows
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs the product with the settings of an example of the guide, and further ones as flags.
func start(t *testing.T, s *pgtest.Server, example string, flags ...string) *pooler.Pooler {
	t.Helper()
	var settings struct {
		Capacity map[string]any
		Routes   []map[string]any
	}
	if err := yaml.Unmarshal([]byte(example), &settings); err != nil {
		t.Fatal(err)
	}
	o := pooler.Options{Target: pooler.Kinetic}
	for name, value := range settings.Capacity {
		o.Flags = append(o.Flags, fmt.Sprintf("--capacity.%s=%v", strings.ReplaceAll(name, "_", "-"), value))
	}
	if settings.Routes != nil {
		text, err := json.Marshal(settings.Routes)
		if err != nil {
			t.Fatal(err)
		}
		o.Env = []string{"PG_KINETIC_ROUTES=" + string(text)}
	}
	o.Flags = append(o.Flags, flags...)
	return pooler.Start(t, s, o)
}

func login(t *testing.T, p *pooler.Pooler, params ...string) *pgwire.Conn {
	t.Helper()
	return pgwire.Login(t, "tcp", p.Addr(), append([]string{"user", "postgres", "database", "postgres"}, params...)...)
}

// gate is a table that nobody can use until open is called.
func gate(t *testing.T, s *pgtest.Server) (open func()) {
	t.Helper()
	c := pgwire.Login(t, "tcp", s.Addr(), "user", "postgres", "database", "postgres")
	must(t, c, "create table if not exists gate ()")
	must(t, c, "begin; lock table gate")
	return func() {
		t.Helper()
		must(t, c, "commit")
	}
}

func must(t *testing.T, c *pgwire.Conn, sql string) [][]string {
	t.Helper()
	rows, err := c.Exec(sql)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return rows
}

// atGate waits until so many sessions stand before the gate; it polls, since PostgreSQL wakes nobody for this.
func atGate(t *testing.T, s *pgtest.Server, n int) {
	t.Helper()
	const count = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%gate%'"
	for deadline := time.Now().Add(20 * time.Second); s.Value(t, count) != fmt.Sprint(n); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s sessions stand before the gate, want %d", s.Value(t, count), n)
		}
	}
}

// replay types what a transcript of psql shows to the pooler, and gives that and what psql has printed, both with figures for
// what differs from one run to the next.
func replay(t *testing.T, s *pgtest.Server, p *pooler.Pooler, transcript string) (want, got string) {
	t.Helper()
	command, typed, _ := strings.Cut(transcript, "\n")
	var input strings.Builder
	for line := range strings.Lines(typed) {
		if strings.HasSuffix(line, ";\n") {
			input.WriteString(line)
		}
	}
	command = strings.Replace(strings.TrimPrefix(command, "$ "), "port=6432", fmt.Sprintf("port=%d", p.Port), 1)
	cmd := exec.Command("sh", "-c", "exec "+command+" 2>&1")
	cmd.Env = append(os.Environ(), "PATH="+s.Bin+":"+os.Getenv("PATH"))
	cmd.Stdin = strings.NewReader(input.String())
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return figures.ReplaceAllString(typed, "N"), figures.ReplaceAllString(string(out), "N")
}

// figures are what differs from one run to the next.
var figures = regexp.MustCompile(`\d+ m?s\b|\bclient \d+`)

// answer is what a request got: an error, or nil.
type answer struct {
	client int
	err    error
}

// ask sends one query from each client and gives the channel on which their answers arrive.
func ask(clients []*pgwire.Conn, sql string) <-chan answer {
	answers := make(chan answer, len(clients))
	for i, c := range clients {
		go func() {
			_, err := c.Exec(sql)
			answers <- answer{i, err}
		}()
	}
	return answers
}

// refusal is the ErrorResponse that an answer must be.
func refusal(t *testing.T, a answer) *pgwire.Error {
	t.Helper()
	e, ok := a.err.(*pgwire.Error)
	if !ok {
		t.Fatalf("client %d got %v, want a refusal", a.client, a.err)
	}
	return e
}

// crowd logs n clients in.
func crowd(t *testing.T, p *pooler.Pooler, n int, application string) []*pgwire.Conn {
	t.Helper()
	var all []*pgwire.Conn
	for range n {
		all = append(all, login(t, p, "application_name", application))
	}
	return all
}
