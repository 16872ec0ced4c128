package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pooler"
)

// clockTick is the unit of the times in /proc: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 100

// cpuSeconds is the user and system time that a process has used.
func cpuSeconds(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field, the program's name in parentheses, may hold blanks: count from its end.
	_, rest, found := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unexpected /proc/%d/stat: %q", pid, text)
	}
	user, err := strconv.ParseFloat(fields[11], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[12], 64)
	return (user + system) / clockTick, err
}

// usage is what the CPUs have spent since the machine started, in seconds: idle, everything together, and what this
// measurement has: the bench, the pooler and PostgreSQL with its processes.
type usage struct{ idle, all, ours float64 }

// watched are the processes of a measurement: the pooler's and the postmaster's numbers.
type watched struct{ pooler, postmaster int }

func watch(server *pgtest.Server, p *pooler.Pooler) (w watched, err error) {
	text, err := os.ReadFile(filepath.Join(server.SocketDir(), "data", "postmaster.pid"))
	if err != nil {
		return w, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	w.pooler = p.PID()
	w.postmaster, err = strconv.Atoi(first)
	return w, err
}

func (w watched) usage() (u usage, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return u, fmt.Errorf("unexpected first line of /proc/stat: %q", first)
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal; guests count as user
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return u, err
		}
		u.all += v / clockTick
		if i == 3 || i == 4 {
			u.idle += v / clockTick
		}
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", w.postmaster))
	if err != nil {
		return u, err
	}
	pids := []int{os.Getpid(), w.pooler, w.postmaster}
	for _, field := range strings.Fields(string(children)) {
		pid, err := strconv.Atoi(field)
		if err != nil {
			return u, err
		}
		pids = append(pids, pid)
	}
	for _, pid := range pids {
		s, err := cpuSeconds(pid)
		if err != nil {
			return u, err
		}
		u.ours += s
	}
	return u, nil
}

// share is how a run found the machine: the part that nobody used, and the part that strangers to it used.
type share struct{ free, others float64 }

func (u usage) since(then usage) share {
	all := max(u.all-then.all, 1.0/clockTick)
	free := (u.idle - then.idle) / all
	return share{free, max(1-free-(u.ours-then.ours)/all, 0)}
}

// minFree is the part of the machine that must be free during a measurement of latency, and maxOthers what processes that
// are no part of it may use: where everything waits for the CPU, the pooler's part in it cannot be told.
const (
	minFree   = 0.4
	maxOthers = 0.05
)

// calm tells whether a run may be judged; note says so behind its figures.
func (s share) calm() bool { return s.free >= minFree && s.others <= maxOthers }

func (s share) note() string {
	text := fmt.Sprintf("%5.0f%% %5.0f%%", s.free*100, s.others*100)
	if !s.calm() {
		text += " not judged"
	}
	return text
}

// tries is how often a run of which so many are wanted is repeated at most, because the machine was not calm.
func tries(wanted int) int { return 3 * wanted }

// notCalm is the verdict when too few of the runs were.
func notCalm(judged, wanted int) (met bool) {
	fmt.Fprintf(out, "only %d of %d runs had %.0f %% of the machine free and at most %.0f %% used by others: %s\n\n",
		judged, wanted, minFree*100, maxOthers*100, verdict(false))
	return false
}

func residentKiB(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strconv.Atoi(strings.Fields(value)[0])
		}
	}
	return 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
}

// watchResident samples a process's resident memory; the returned function ends that and gives the highest value, in KiB.
func watchResident(pid int) func() (int, error) {
	type outcome struct {
		kib int
		err error
	}
	stop, done := make(chan struct{}), make(chan outcome)
	go func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for peak := 0; ; {
			kib, err := residentKiB(pid)
			peak = max(peak, kib)
			if err != nil {
				done <- outcome{0, err}
				return
			}
			select {
			case <-stop:
				done <- outcome{peak, nil}
				return
			case <-tick.C:
			}
		}
	}()
	return func() (int, error) {
		close(stop)
		o := <-done
		return o.kib, o.err
	}
}

// raiseDescriptors makes room for that many sockets in this process.
func raiseDescriptors(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if need := uint64(n) + 100; limit.Cur < need {
		return fmt.Errorf("the limit of open files is %d, %d clients need %d", limit.Cur, n, need)
	}
	return nil
}
