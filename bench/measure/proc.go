// Package measure reads what processes and the machine have spent: /proc, and system calls through perf. Linux only.
package measure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// clockTick is the unit of the times in /proc: USER_HZ, 100 on every Linux that Go runs on.
const clockTick = 100

// Usage is what processes have used since they began. Children that have ended count with their parents.
type Usage struct {
	User, System float64 // s
	Switches     float64 // context switches of the threads that are alive, voluntary and not
}

// Minus is what was used since then.
func (u Usage) Minus(then Usage) Usage {
	return Usage{u.User - then.User, u.System - then.System, u.Switches - then.Switches}
}

// Seconds is user and system time together.
func (u Usage) Seconds() float64 { return u.User + u.System }

// Tree is the processes and all their living descendants. A process that has ended meanwhile is left out.
func Tree(roots ...int) (pids []int, err error) {
	pids = append(pids, roots...)
	for i := 0; i < len(pids); i++ {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pids[i]))
		if err != nil {
			return nil, err
		}
		for _, task := range tasks {
			text, err := os.ReadFile(task)
			if gone(err) {
				continue
			}
			if err != nil {
				return nil, err
			}
			for field := range strings.FieldsSeq(string(text)) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					return nil, err
				}
				pids = append(pids, pid)
			}
		}
	}
	return pids, nil
}

// gone tells that a process or thread has ended between two looks.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }

// Of is what the trees under the processes have used. A root that does not exist is an error.
func Of(roots ...int) (u Usage, err error) {
	pids, err := Tree(roots...)
	if err != nil {
		return u, err
	}
	for i, pid := range pids {
		one, err := usage(pid)
		if i >= len(roots) && gone(err) {
			continue
		}
		if err != nil {
			return u, err
		}
		u.User, u.System, u.Switches = u.User+one.User, u.System+one.System, u.Switches+one.Switches
	}
	return u, nil
}

func usage(pid int) (u Usage, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return u, err
	}
	if u.User, u.System, err = times(string(text)); err != nil {
		return u, fmt.Errorf("/proc/%d/stat: %w", pid, err)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return u, err
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if gone(err) {
			continue
		}
		if err != nil {
			return u, err
		}
		for line := range strings.Lines(string(text)) {
			if name, value, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err != nil {
					return u, err
				}
				u.Switches += n
			}
		}
	}
	return u, nil
}

// times reads user and system time from a stat file, those of children that were waited for included.
func times(stat string) (user, system float64, err error) {
	// The second field, the program's name in parentheses, may hold blanks and parentheses: count from its end.
	end := strings.LastIndex(stat, ") ")
	if end < 0 {
		return 0, 0, fmt.Errorf("unexpected %q", stat)
	}
	fields := strings.Fields(stat[end+2:])
	if len(fields) < 15 {
		return 0, 0, fmt.Errorf("unexpected %q", stat)
	}
	var t [4]float64 // utime, stime, cutime, cstime
	for i := range t {
		if t[i], err = strconv.ParseFloat(fields[11+i], 64); err != nil {
			return 0, 0, err
		}
	}
	return (t[0] + t[2]) / clockTick, (t[1] + t[3]) / clockTick, nil
}

// Resident is the memory of the trees under the processes, in bytes: their proportional set size, in which a page that
// several processes share counts once.
func Resident(roots ...int) (bytes int64, err error) {
	pids, err := Tree(roots...)
	if err != nil {
		return 0, err
	}
	for i, pid := range pids {
		n, err := resident(pid)
		if i >= len(roots) && gone(err) {
			continue
		}
		if err != nil {
			return 0, err
		}
		bytes += n
	}
	return bytes, nil
}

func resident(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "Pss:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no Pss in /proc/%d/smaps_rollup", pid)
}

// PeakResident samples the memory of a process until the returned function is called, which gives the highest value.
func PeakResident(pid int) func() (int64, error) {
	type outcome struct {
		bytes int64
		err   error
	}
	stop, done := make(chan struct{}), make(chan outcome)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for peak := int64(0); ; {
			bytes, err := Resident(pid)
			peak = max(peak, bytes)
			if err != nil {
				<-stop
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
	return func() (int64, error) {
		close(stop)
		o := <-done
		return o.bytes, o.err
	}
}

// Postmaster is the parent of a process of PostgreSQL with that number, 0 where there is none on this machine: what PostgreSQL
// says of its own backend may be true of another machine.
func Postmaster(backend int) int {
	comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", backend))
	if err != nil || strings.TrimSpace(string(comm)) != "postgres" {
		return 0
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", backend))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	if fields := strings.Fields(rest); len(fields) > 1 {
		parent, _ := strconv.Atoi(fields[1]) // 0 when it is no number
		return parent
	}
	return 0
}
