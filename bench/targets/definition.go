// Package targets starts what is compared: PostgreSQL itself, pg-kinetic, and other poolers where they are installed. Each is a
// definition, a YAML file of this directory.
package targets

import (
	"bytes"
	"crypto/md5"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"
)

//go:embed *.yaml
var files embed.FS

// Definition says how a target is started. The values of Args, Env and Files are templates over Place.
type Definition struct {
	Name  string `yaml:"name"`
	Title string `yaml:"title"`
	// Programs are names or paths, of which the first that is found is started. Without any, the target is PostgreSQL itself.
	Programs []string          `yaml:"programs"`
	Version  Version           `yaml:"version"`
	Args     []string          `yaml:"args"`
	Env      []string          `yaml:"env"`
	Files    map[string]string `yaml:"files"`
	// Unprivileged programs refuse to run as root.
	Unprivileged bool `yaml:"unprivileged"`
	// OneToOne programs hold a connection to PostgreSQL for each client: backends do not bound them.
	OneToOne bool `yaml:"one_to_one"`
	// MaxClients is the number of clients that it can have; 0 = no bound that would matter.
	MaxClients int `yaml:"max_clients"`
	// Prepared is the first version that carries prepared statements from one backend to another; "" = none does, "0" = all do.
	Prepared string `yaml:"prepared"`
	// Password programs ask their clients for one, whatever PostgreSQL does.
	Password bool `yaml:"password"`
	// Secure definitions do what a Security says.
	Secure bool `yaml:"secure"`
	// Note is what a reader of its figures must know.
	Note string `yaml:"note"`
}

// Version says how to ask a program for its version: arguments, and a pattern whose first group is it.
type Version struct {
	Args  []string `yaml:"args"`
	Match string   `yaml:"match"`
}

// Place is what the templates of a definition may use.
type Place struct {
	Dir      string // for files; the program may write there
	Port     int    // on 127.0.0.1
	Extra    int    // another free port
	Backends int    // connections to PostgreSQL
	Clients  int    // that there may be
	Server   Server
	Version  string
	Security
	Secret string // with Scram: the password as PostgreSQL stores it
}

// Server is the PostgreSQL behind the targets.
type Server struct {
	Host                     string
	Port                     int
	User, Password, Database string
}

// AtLeast tells whether the program's version is that or a newer one.
func (p Place) AtLeast(version string) bool { return compareVersions(p.Version, version) >= 0 }

// Password is what clients log in with, and the pooler in to PostgreSQL: any will do for a PostgreSQL that asks for none.
func (p Place) Password() string {
	if p.Server.Password == "" {
		return "bench"
	}
	return p.Server.Password
}

// MD5 is the password as PostgreSQL stores it: "md5" and the hash of password and user.
func (p Place) MD5() string {
	return fmt.Sprintf("md5%x", md5.Sum([]byte(p.Password()+p.Server.User)))
}

// Definitions are all that there are, by name.
func Definitions() ([]Definition, error) { return read(files) }

func read(from fs.FS) (all []Definition, err error) {
	paths, err := fs.Glob(from, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := fs.ReadFile(from, path)
		if err != nil {
			return nil, err
		}
		d := Definition{}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		if err := decoder.Decode(&d); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := d.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func (d *Definition) check() error {
	switch {
	case d.Name == "" || d.Title == "":
		return errors.New("a target needs a name and a title")
	case len(d.Programs) > 0 && (d.Version.Match == "" || len(d.Args) == 0):
		return errors.New("a program needs arguments and a way to tell its version")
	}
	_, err := regexp.Compile(d.Version.Match)
	return err
}

// ErrNotInstalled is the error of a target whose program is not there.
var ErrNotInstalled = errors.New("not installed")

// program finds the program and its version.
func (d *Definition) program() (path, version string, err error) {
	i := slices.IndexFunc(d.Programs, func(name string) bool {
		path, err = exec.LookPath(name)
		return err == nil
	})
	if i < 0 {
		return "", "", fmt.Errorf("%w: no %s", ErrNotInstalled, strings.Join(d.Programs, ", "))
	}
	report, err := exec.Command(path, d.Version.Args...).CombinedOutput()
	if err != nil {
		return "", "", fmt.Errorf("%s %s: %w\n%s", path, strings.Join(d.Version.Args, " "), err, report)
	}
	version, err = d.readVersion(string(report))
	return path, version, err
}

func (d *Definition) readVersion(report string) (string, error) {
	m := regexp.MustCompile(d.Version.Match).FindStringSubmatch(report)
	if len(m) < 2 {
		return "", fmt.Errorf("%s printed no version:\n%s", d.Name, report)
	}
	return m[1], nil
}

// tracks tells whether that version carries prepared statements.
func (d *Definition) tracks(version string) bool {
	return d.Prepared != "" && compareVersions(version, d.Prepared) >= 0
}

// compareVersions compares the numbers between the dots; what follows a number does not count.
func compareVersions(a, b string) int {
	numbers := func(version string) (n []int) {
		for part := range strings.SplitSeq(version, ".") {
			end := strings.IndexFunc(part, func(r rune) bool { return r < '0' || r > '9' })
			if end < 0 {
				end = len(part)
			}
			v, _ := strconv.Atoi(part[:end]) // no number is 0
			n = append(n, v)
		}
		return n
	}
	return slices.Compare(numbers(a), numbers(b))
}

func fill(name, text string, place Place) (string, error) {
	t, err := template.New(name).Option("missingkey=error").Parse(text)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	err = t.Execute(&b, place)
	return b.String(), err
}
