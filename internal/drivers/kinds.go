package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// kind is a language with its package client. fetch brings packages from outside: where it fails the driver is skipped by
// name. build works with what is there: where it fails the run fails. Both end early when a mark says that they are done.
type kind struct {
	tools   []tool
	clients []tool // that only fetching needs
	fetch   func(k *kit) error
	build   func(k *kit) error
	always  bool // build each time
	command func(k *kit) []string
	env     func(k *kit) []string
}

// tool is a program and the system's packages that bring it.
type tool struct {
	probe    []string // a command that succeeds where the tool is there
	packages []string
}

// kit is one driver with its places: source, its folder in the repository, which nothing is written to; and cache, a folder
// of its own outside it, named after what is to be fetched.
type kit struct {
	*driver
	source, cache string
}

var golang = kind{
	always: true,
	build: func(k *kit) error {
		return execute(filepath.Dir(filepath.Dir(filepath.Dir(k.source))), nil, "go", "build", "-o", k.path("program"), "./internal/drivers/"+k.name)
	},
	command: func(k *kit) []string { return []string{k.path("program")} },
}

var python = kind{
	tools:   []tool{{[]string{"python3", "--version"}, []string{"python3"}}},
	clients: []tool{{[]string{"python3", "-m", "pip", "--version"}, []string{"python3-pip"}}},
	fetch: func(k *kit) error {
		return execute(k.cache, []string{"PIP_ROOT_USER_ACTION=ignore"}, "python3", "-m", "pip", "install", "--quiet",
			"--disable-pip-version-check", "--no-input", "--no-deps", "--only-binary", ":all:", "--upgrade",
			"--target", k.path("packages"), "--requirement", filepath.Join(k.source, "requirements.txt"))
	},
	command: func(k *kit) []string { return []string{"python3", filepath.Join(k.source, "program.py")} },
	env: func(k *kit) []string {
		return []string{
			"PYTHONDONTWRITEBYTECODE=1", "PYTHONUNBUFFERED=1",
			"PYTHONPATH=" + k.path("packages") + ":" + filepath.Join(filepath.Dir(k.source), "report"),
		}
	},
}

// The program is copied beside its packages, where node looks for them.
var node = kind{
	tools:   []tool{{[]string{"node", "--version"}, []string{"nodejs"}}},
	clients: []tool{{[]string{"npm", "--version"}, []string{"npm"}}},
	fetch: func(k *kit) error {
		if err := k.copy("package.json", "package-lock.json"); err != nil {
			return err
		}
		return execute(k.cache, nil, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error", "--ignore-scripts")
	},
	build: func(k *kit) error {
		if err := k.copy("program.mjs", "../report/report.mjs"); err != nil {
			return err
		}
		if k.name != "prisma" {
			return nil
		}
		if err := k.copy("schema.prisma", "prisma.config.mjs"); err != nil {
			return err
		}
		// The engine of its migrations would be fetched from elsewhere, and is not needed for this.
		return execute(k.cache, []string{"PRISMA_SCHEMA_ENGINE_BINARY=/bin/true"}, "npx", "--no-install", "prisma", "generate")
	},
	command: func(k *kit) []string { return []string{"node", k.path("program.mjs")} },
}

var java = kind{
	tools:   []tool{{[]string{"javac", "-version"}, []string{"default-jdk-headless"}}},
	clients: []tool{{[]string{"mvn", "--version"}, []string{"maven"}}},
	fetch: func(k *kit) error {
		for _, artifact := range k.driver.fetch {
			err := execute(k.cache, nil, "mvn", "--quiet", "--batch-mode", "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy",
				"-Dartifact="+artifact, "-DoutputDirectory="+k.path("packages"))
			if err != nil {
				return err
			}
		}
		return nil
	},
	build: func(k *kit) error {
		return execute(k.cache, nil, "javac", "-d", k.path("classes"), "-cp", k.path("packages")+"/*", filepath.Join(k.source, "Program.java"))
	},
	command: func(k *kit) []string {
		return []string{"java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", k.path("classes") + ":" + k.path("packages") + "/*", "Program"}
	},
}

var rust = kind{
	tools: []tool{{[]string{"cargo", "--version"}, []string{"cargo"}}},
	fetch: func(k *kit) error {
		return execute(k.source, nil, "cargo", "fetch", "--quiet", "--locked", "--manifest-path", filepath.Join(k.source, "Cargo.toml"))
	},
	build: func(k *kit) error {
		return execute(k.source, []string{"CARGO_TARGET_DIR=" + k.path("target")}, "cargo", "build", "--quiet", "--locked", "--offline")
	},
	command: func(k *kit) []string { return []string{k.path("target/debug/program")} },
}

var clang = kind{
	tools: []tool{
		{[]string{"gcc", "--version"}, []string{"gcc", "libc6-dev"}},
		{[]string{"pg_config", "--includedir"}, []string{"libpq-dev"}},
	},
	build: func(k *kit) error {
		includes, err := exec.Command("pg_config", "--includedir").Output()
		if err != nil {
			return err
		}
		return execute(k.cache, nil, "gcc", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-I"+strings.TrimSpace(string(includes)),
			"-o", k.path("program"), filepath.Join(k.source, "program.c"), "-lpq")
	},
	command: func(k *kit) []string { return []string{k.path("program")} },
}

func (k *kit) path(name string) string { return filepath.Join(k.cache, filepath.FromSlash(name)) }

// copy copies files of the source folder into the cache.
func (k *kit) copy(names ...string) error {
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(k.source, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(k.cache, filepath.Base(name)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// execute runs a step of an installation, with its output in the error.
func execute(dir string, env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lastLines(string(out), 15))
	}
	return nil
}

var errNoApt = errors.New("there is no apt-get to install it with")

// provide makes sure that the tool is there, if need be from the system's packages.
func (t tool) provide() error {
	if t.there() {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%s is missing: %w", t.probe[0], errNoApt)
	}
	fmt.Fprintf(os.Stderr, "installing %s from the system's packages\n", strings.Join(t.packages, ", "))
	apt := []string{"env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300"}
	if os.Geteuid() != 0 {
		apt = append([]string{"sudo", "-n"}, apt...)
	}
	for _, step := range [][]string{{"update"}, append([]string{"install", "--no-install-recommends"}, t.packages...)} {
		all := append(append([]string{}, apt...), step...)
		if err := execute("", nil, all[0], all[1:]...); err != nil {
			return err
		}
	}
	if !t.there() {
		return fmt.Errorf("%s is still missing after its packages were installed", t.probe[0])
	}
	return nil
}

func (t tool) there() bool { return exec.Command(t.probe[0], t.probe[1:]...).Run() == nil }

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
