package targets

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// Choice is a target to start: a definition, perhaps with another binary, further arguments and environment, under a name of
// its own.
type Choice struct {
	Name     string   `yaml:"name"`
	Of       string   `yaml:"of"` // name of the definition
	Args     []string `yaml:"args"`
	Env      []string `yaml:"env"`
	Binary   string   `yaml:"-"` // "" = where the definition finds it
	Security `yaml:",inline"`
}

// Target is one that runs. Owner: who started it. The process lives until Stop, or until this program ends: see Fleet.Dir.
type Target struct {
	Choice
	Definition *Definition
	Version    string
	Server     Server // where clients connect: the pooler, or PostgreSQL itself
	Extra      int    // Place.Extra
	Tracks     bool   // carries prepared statements
	process    *pooler.Process
}

// Fleet starts targets before one PostgreSQL.
type Fleet struct {
	Definitions []Definition
	Server      Server
	Backends    int
	Clients     int    // that a target may have at most
	Dir         string // of files; a watchdog ends what its .pid files name: a Server's directory, or a PrivateDir, of pgtest
	started     int
}

// Start starts a target. The error is ErrNotInstalled where its program is not there.
func (f *Fleet) Start(c Choice) (*Target, error) {
	i := slices.IndexFunc(f.Definitions, func(d Definition) bool { return d.Name == c.Of })
	if i < 0 {
		return nil, fmt.Errorf("there is no target %q", c.Of)
	}
	t := &Target{Choice: c, Definition: &f.Definitions[i], Server: f.Server}
	if c.Security != (Security{}) && !t.Definition.Secure {
		return nil, fmt.Errorf("%s: its definition knows neither TLS nor SCRAM", c.Name)
	}
	if len(t.Definition.Programs) == 0 {
		t.Tracks = true
		return t, nil
	}
	d := *t.Definition
	if c.Binary != "" {
		d.Programs = []string{c.Binary}
	}
	path, version, err := d.program()
	if err != nil {
		return nil, err
	}
	t.Version, t.Tracks = version, d.tracks(version)
	cmd, place, err := f.command(t, path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	t.Server.Host, t.Server.Port, t.Extra = "127.0.0.1", place.Port, place.Extra
	if t.Definition.Password || t.Scram {
		t.Server.Password = place.Password()
	}
	t.process, err = pooler.Launch(cmd, place.Dir, func() bool { return listens(place.Port) })
	return t, err
}

// command writes the target's files into a directory of its own and prepares its process.
func (f *Fleet) command(t *Target, path string) (cmd *exec.Cmd, place Place, err error) {
	f.started++
	place = Place{
		Dir: filepath.Join(f.Dir, fmt.Sprintf("%s-%d", t.Name, f.started)), Backends: f.Backends, Clients: f.Clients,
		Server: f.Server, Version: t.Version, Security: t.Security,
	}
	if t.Definition.MaxClients > 0 {
		place.Clients = t.Definition.MaxClients
	}
	for _, port := range []*int{&place.Port, &place.Extra} {
		if *port, err = pgtest.FreePort(); err != nil {
			return nil, place, err
		}
	}
	var owner *syscall.Credential
	if t.Definition.Unprivileged {
		owner = pgtest.Unprivileged()
	}
	if err := writeFiles(t.Definition, &place, owner); err != nil {
		return nil, place, err
	}
	args, err := fillAll(append(slices.Clone(t.Definition.Args), t.Args...), place)
	if err != nil {
		return nil, place, err
	}
	env, err := fillAll(append(slices.Clone(t.Definition.Env), t.Env...), place)
	if err != nil {
		return nil, place, err
	}
	cmd = exec.Command(path, args...)
	cmd.Env = append(pooler.CleanEnvironment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	return cmd, place, nil
}

func writeFiles(d *Definition, place *Place, owner *syscall.Credential) error {
	if err := os.Mkdir(place.Dir, 0o755); err != nil {
		return err
	}
	if err := place.secure(owner); err != nil {
		return err
	}
	for name, text := range d.Files {
		filled, err := fill(name, text, *place)
		if err != nil {
			return err
		}
		path := filepath.Join(place.Dir, name)
		if err := os.WriteFile(path, []byte(filled), 0o600); err != nil {
			return err
		}
		if owner != nil {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				return err
			}
		}
	}
	if owner != nil {
		return os.Chown(place.Dir, int(owner.Uid), int(owner.Gid))
	}
	return nil
}

func fillAll(texts []string, place Place) (filled []string, err error) {
	for _, text := range texts {
		value, err := fill(text, text, place)
		if err != nil {
			return nil, err
		}
		filled = append(filled, value)
	}
	return filled, nil
}

func listens(port int) bool {
	c, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = c.Close() // nothing was sent
	return true
}

// Roots are the processes whose trees are the pooler; none where the target is PostgreSQL itself.
func (t *Target) Roots() []int {
	if t.process == nil {
		return nil
	}
	return []int{t.process.PID()}
}

// Ended tells that the process has ended by itself, with the end of its log.
func (t *Target) Ended() (log string, ended bool) {
	if t.process == nil {
		return "", false
	}
	select {
	case <-t.process.Ended():
		return t.process.LogTail(20), true
	default:
		return "", false
	}
}

// Stop ends the process, in order if it can be. It tells when it was gone before.
func (t *Target) Stop() error {
	if t.process == nil || t.process.End() {
		return nil
	}
	return fmt.Errorf("%s had ended:\n%s", t.Name, t.process.LogTail(20))
}

// Takes tells whether the target can have that many clients.
func (t *Target) Takes(clients int) bool {
	return t.Definition.MaxClients == 0 || clients <= t.Definition.MaxClients
}

// Describe is the target's title with its version.
func (t *Target) Describe() string {
	return strings.TrimSpace(t.Definition.Title + " " + t.Version)
}
