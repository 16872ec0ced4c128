package guide

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgkinetic/internal/pooler"
	"pgkinetic/internal/testcert"
)

// notSettings are the first words of examples that are for other programs.
var notSettings = []string{"apiVersion:", "livenessProbe:", "scrape_configs:"}

// TestEveryExampleOfSettings: `pg-kinetic check` finds nothing wrong with what README and docs show as settings, and warns of
// nothing, where the files are there that an example names, and somebody may log in.
func TestEveryExampleOfSettings(t *testing.T) {
	t.Parallel()
	program, err := pooler.Built()
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	dir := tlsFiles(t, testcert.Authority("authority"))
	checked := 0
	for _, p := range append(pages, string(readme)) {
		for _, m := range fence.FindAllStringSubmatch(page(p).text(t), -1) {
			text := strings.ReplaceAll("\n"+m[3], "\n"+m[1], "\n")[1:]
			if m[2] != "yaml" && m[2] != "toml" || forOthers(text) {
				continue
			}
			checked++
			cmd := exec.Command(program, "check", "--config", write(t, "example."+m[2], strings.ReplaceAll(text, "/etc/pg-kinetic", dir)))
			cmd.Dir = dir // where an example's users.txt is
			cmd.Env = pooler.CleanEnvironment()
			if !strings.Contains(text, "auth") {
				cmd.Env = append(cmd.Env, "PG_KINETIC_AUTH__USERS_FILE="+filepath.Join(dir, "users.txt"))
			}
			out, err := cmd.CombinedOutput()
			told := strings.ReplaceAll(string(out), "warning: checkout_timeout_ms 250 is below connect_timeout_ms", "") // as the page says
			if err != nil || strings.Contains(told, "warning: ") {
				t.Errorf("%s: %v\n%sin\n%s", p, err, out, text)
			}
		}
	}
	if checked < 15 {
		t.Errorf("only %d examples were found", checked)
	}
}

// forOthers: an example is no settings of pg-kinetic.
func forOthers(example string) bool {
	return slices.ContainsFunc(notSettings, func(word string) bool { return strings.HasPrefix(example, word) })
}

var (
	heading   = regexp.MustCompile(`(?m)^#+ (.+)$`)
	link      = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	noAnchors = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
)

// TestLinks: what README and the pages link to is there, headings included, and each page is reached from docs/README.md.
func TestLinks(t *testing.T) {
	t.Parallel()
	pages := []string{"../../README.md", "../../CHANGELOG.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/design/*.md", "../../configs/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, found...)
	}
	listed := map[string]bool{"../../docs/README.md": true, "../../README.md": true, "../../CHANGELOG.md": true}
	for _, p := range pages {
		text := fence.ReplaceAllString(page(p).text(t), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") {
				continue
			}
			target := p
			if file != "" {
				target = filepath.Join(filepath.Dir(p), file)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", p, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
				t.Errorf("%s links to %s, which has no such heading", p, m[1])
			}
			if p == "../../docs/README.md" {
				listed[target] = true
			}
		}
	}
	for _, p := range pages {
		if !listed[p] {
			t.Errorf("docs/README.md does not list %s", p)
		}
	}
}

// anchors are the names by which a page's headings are linked to, as GitHub makes them.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	var all []string
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page(path).text(t), ""), -1) {
		name := strings.ToLower(noAnchors.ReplaceAllString(m[1], ""))
		all = append(all, strings.ReplaceAll(name, " ", "-"))
	}
	return all
}
