package guide

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgkinetic/internal/pooler"
)

const readme page = "../../README.md"

var cleanRoot = flag.Bool("clean-root", false, "follow README's quick start in a root that holds little but Go and make; takes minutes")

// place is where a newcomer sits: it makes the process of a shell command there.
type place func(script string) *exec.Cmd

// TestReadmeQuickStart follows README's section "Try it" to the letter in this checkout, on other ports where those are
// taken.
func TestReadmeQuickStart(t *testing.T) {
	if *cleanRoot {
		t.Skip("TestNewcomerInCleanRoot does the same")
	}
	root, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	followQuickStart(t, func(script string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = root
		return cmd
	})
}

// TestNewcomerInCleanRoot does it in a root of its own, without PostgreSQL and with nothing in its home directory, within
// five minutes of `make run`.
func TestNewcomerInCleanRoot(t *testing.T) {
	if !*cleanRoot {
		t.Skip("`make newcomer` runs it: it installs a Debian and everything else from the network")
	}
	if os.Geteuid() != 0 {
		t.Fatal("a root of its own is made by root only")
	}
	for _, port := range []string{"6432", "6433"} { // those of README, so that it can be followed to the letter
		l, err := net.Listen("tcp", "127.0.0.1:"+port)
		if err != nil {
			t.Fatalf("README's commands would reach somebody else: %v", err)
		}
		_ = l.Close() // nobody was there
	}
	began := time.Now()
	in := newRoot(t)
	t.Logf("the clean root was made in %v", time.Since(began).Round(time.Second))
	began = time.Now()
	followQuickStart(t, in)
	took := time.Since(began).Round(time.Second)
	t.Logf("from `make run` to the refusal on the console and in the metrics, and to the end: %v", took)
	if took > 5*time.Minute {
		t.Errorf("took %v, want less than five minutes", took)
	}
}

// followQuickStart does what the section says, command by command.
func followQuickStart(t *testing.T, in place) {
	t.Helper()
	_, section, _ := strings.Cut(readme.text(t), "\n## Try it\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := fence.FindAllStringSubmatch(section, -1)
	if len(blocks) != 4 {
		t.Fatalf("the section has %d blocks: make run, a session, the 13 clients, where it shows", len(blocks))
	}
	usual := strings.NewReplacer()
	began := time.Now()
	run := startDemo(t, in, blocks[0][3], &usual)
	t.Logf("`make run` was ready after %v", time.Since(began).Round(time.Second))

	command, typed, _ := strings.Cut(blocks[1][3], "\n")
	command = strings.TrimPrefix(command, "$ ")
	if !strings.Contains(run.told, usual.Replace(command)) {
		t.Errorf("`make run` does not print %q:\n%s", usual.Replace(command), run.told)
	}
	statement := regexp.MustCompile(`(?m)^postgres=# `).ReplaceAllString(typed, "")
	if got := do(t, in(usual.Replace(command)), statement); !strings.Contains(got, "\n        1\n(1 row)") {
		t.Errorf("the session shows %q", got)
	}

	got := do(t, in(usual.Replace(blocks[2][3])), "")
	if served, refused := strings.Count(got, "(1 row)"), strings.Count(got, "ERROR:  pg-kinetic: route queue full"); served != 12 || refused != 1 {
		t.Errorf("%d clients were served and %d refused:\n%s", served, refused, got)
	}

	got = do(t, in(usual.Replace(blocks[3][3])), "")
	row := backpressureOf(t, got, "demo")
	if row["rejected"] != "1" || row["admitted"] != "12" || row["queued"] != "4" {
		t.Errorf("SHOW BACKPRESSURE shows %v", row)
	}
	if want := `pg_kinetic_backpressure_events_total{route="demo",outcome="rejected"} 1`; !strings.Contains(got, want+"\n") {
		t.Errorf("the metrics do not have %s:\n%s", want, got)
	}
	run.interrupt(t, in)
}

// do runs a command and gives what it has printed.
func do(t *testing.T, cmd *exec.Cmd, input string) string {
	t.Helper()
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v: %v", cmd.Args, err)
	}
	return string(out)
}

// backpressureOf is the row of a route in psql's table of SHOW BACKPRESSURE, by column.
func backpressureOf(t *testing.T, printed, route string) map[string]string {
	t.Helper()
	var columns []string
	for line := range strings.Lines(printed) {
		var cells []string
		for cell := range strings.SplitSeq(line, "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		switch {
		case cells[0] == "route":
			columns = cells
		case cells[0] == route && len(cells) == len(columns):
			row := map[string]string{}
			for i, name := range columns {
				row[name] = cells[i]
			}
			return row
		}
	}
	t.Fatalf("no row of %s in:\n%s", route, printed)
	return nil
}

// demo is a running `make run`.
type demo struct {
	cmd  *exec.Cmd
	told string // what it printed until it was ready
	rest chan string
}

// startDemo starts it and waits until it is ready; ports that it had to take instead of the usual ones go into usual.
func startDemo(t *testing.T, in place, command string, usual **strings.Replacer) *demo {
	t.Helper()
	d := &demo{cmd: in(command), rest: make(chan string, 1)}
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // as a terminal does, whose Ctrl-C goes to all of them
	d.cmd.Stderr = os.Stderr
	stdout, err := d.cmd.StdoutPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGKILL) }) // after a failure; else there is none
	printed := bufio.NewReader(stdout)
	for !strings.Contains(d.told, "Ctrl-C stops both and removes everything.\n") {
		line, err := printed.ReadString('\n')
		if d.told += line; err != nil {
			t.Fatalf("%s ended (%v), having printed:\n%s", command, err, d.told)
		}
	}
	port := regexp.MustCompile(`-p (\d+) -U postgres postgres `).FindStringSubmatch(d.told)
	http := regexp.MustCompile(`curl http://127.0.0.1:(\d+)/metrics`).FindStringSubmatch(d.told)
	if port == nil || http == nil {
		t.Fatalf("it does not say how to reach it:\n%s", d.told)
	}
	*usual = strings.NewReplacer("6432", port[1], "6433", http[1])
	go func() {
		rest, _ := io.ReadAll(printed) // to its end, whatever ends it
		d.rest <- string(rest)
	}()
	return d
}

// interrupt is Ctrl-C: it ends in order and its directory is gone.
func (d *demo) interrupt(t *testing.T, in place) {
	t.Helper()
	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest := <-d.rest
	_ = d.cmd.Wait() // make tells in its way that it was interrupted
	if !strings.Contains(rest, "interrupt: stopping ...") {
		t.Errorf("after Ctrl-C it printed %q", rest)
	}
	dir := regexp.MustCompile(`data in ([^)]+)`).FindStringSubmatch(d.told)
	if dir == nil {
		t.Fatalf("it does not say where its data is:\n%s", d.told)
	}
	if err := in("test ! -e " + dir[1]).Run(); err != nil {
		t.Errorf("%s is still there: %v", dir[1], err)
	}
}

// newRoot makes a Debian with make, curl and what a download needs, the Go toolchain of this machine, and a copy of what is
// tracked here. Its commands run in namespaces that end with this process.
func newRoot(t *testing.T) place {
	t.Helper()
	source, err := pooler.Root()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	release := output(t, "sh", "-c", ". /etc/os-release && echo $VERSION_CODENAME")
	output(t, "debootstrap", "--variant=minbase", "--include=make,curl,ca-certificates", release, root)
	for _, name := range []string{"/etc/resolv.conf", "/etc/ssl/certs/ca-certificates.crt"} { // how this machine reaches the network
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(root+name, text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	const home = "/srv/pg-kinetic"
	output(t, "sh", "-c", fmt.Sprintf("mkdir -p %s/usr/local/go %s%s && cd %s && git ls-files -z | xargs -0 ls -d 2>/dev/null | tar -c -T - | tar -x -C %[2]s%[3]s",
		root, root, home, source))

	holder := exec.Command("unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c",
		`mount --bind -o ro "$1" "$2/usr/local/go" && mount -t proc proc "$2/proc" && echo ready && exec cat`,
		"sh", output(t, "go", "env", "GOROOT"), root)
	holder.Stderr = os.Stderr
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := holder.StdinPipe() // its end is the end of cat, and with that of everything inside
	if err == nil {
		err = holder.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = holder.Wait()
	})
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("no namespaces: %q %v", line, err)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/lib/postgresql")); err == nil {
		t.Fatal("the clean root has PostgreSQL")
	}
	ns := fmt.Sprintf("/proc/%d/ns/", holder.Process.Pid)
	enter := []string{
		"--mount=" + ns + "mnt", "--pid=" + ns + "pid_for_children", "chroot", root, "env", "-i", "HOME=/root", "USER=root", "TERM=dumb",
		"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
	}
	for _, name := range []string{"GOPROXY", "GOSUMDB", "GONOSUMDB"} { // where this machine gets Go's modules
		enter = append(enter, name+"="+output(t, "go", "env", name))
	}
	return func(script string) *exec.Cmd {
		return exec.Command("nsenter", slices.Concat(enter, []string{"sh", "-c", "cd " + home + " && " + script})...)
	}
}

// output is what a program prints, without the newline at its end.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", name, err, out, complaint.String())
	}
	return strings.TrimSpace(string(out))
}
