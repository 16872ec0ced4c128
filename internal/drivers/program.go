package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pgkinetic/internal/pooler"
)

// programLimit bounds one run of one program.
const programLimit = 120 * time.Second

// outcome is what one run of a program told. Owner: the run that made it; the table reads it afterwards.
type outcome struct {
	version  string
	backends int               // that served one session; 0: not told
	results  map[string]string // capability → "" (works) or why not
	took     time.Duration
}

// failures lists what does not work, in the driver's order.
func (o *outcome) failures(d *driver) []string {
	var all []string
	for _, c := range append(d.expected(), moved, "program") {
		if why := o.results[c]; why != "" {
			all = append(all, c+": "+why)
		}
	}
	return all
}

// runProgram runs a driver's program against the pooler.
func runProgram(k *kit, variant string, p *pooler.Pooler, l *logins) *outcome {
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	args := k.kind.command(k)
	if variant != "" {
		args = append(args, variant)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = k.cache
	cmd.Env = append(os.Environ(),
		"DRIVERS_URL="+fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres", p.Port),
		"DRIVERS_HOST=127.0.0.1", "DRIVERS_PORT="+strconv.Itoa(p.Port), "DRIVERS_CERTIFICATES="+l.dir, "TZ=UTC")
	if k.kind.env != nil {
		cmd.Env = append(cmd.Env, k.kind.env(k)...)
	}
	// A program may have children that hold its output: they go with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	started := time.Now()
	err := cmd.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("has not ended within %v", programLimit)
	}
	o := parse(out.String(), k.expected())
	o.took = time.Since(started)
	if err != nil && !slices.ContainsFunc(k.expected(), func(c string) bool { return o.results[c] != "" }) {
		o.results["program"] = err.Error()
	}
	if len(o.failures(k.driver)) > 0 && complaints.Len() > 0 {
		fmt.Fprintln(os.Stderr, lastLines(complaints.String(), 25))
	}
	return o
}

// parse reads what a program printed. A capability without a line, or a line that is none, is a failure.
func parse(text string, expected []string) *outcome {
	o := &outcome{results: map[string]string{}}
	told := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		name, why, _ := strings.Cut(rest, ": ")
		var err error
		switch word {
		case "version":
			o.version = rest
		case "backends":
			o.backends, err = strconv.Atoi(rest)
		case "ok":
			err = o.tell(told, expected, rest, "")
		case "FAIL":
			if why == "" {
				why = "no reason given"
			}
			err = o.tell(told, expected, name, why)
		default:
			err = errors.New("not a line of a report")
		}
		if err != nil {
			o.results["program"] = fmt.Sprintf("%q: %v", lines.Text(), err)
		}
	}
	for _, c := range expected {
		if !told[c] {
			o.results[c] = "the program did not come to it"
		}
	}
	return o
}

func (o *outcome) tell(told map[string]bool, expected []string, name, why string) error {
	switch {
	case !slices.Contains(expected, name):
		return errors.New("not expected of this driver")
	case told[name]:
		return errors.New("told twice")
	}
	told[name] = true
	o.results[name] = why
	return nil
}
