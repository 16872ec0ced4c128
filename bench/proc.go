package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// machineTime is what all CPUs have spent since the machine started, in clock ticks: idle, and everything together.
type machineTime struct{ idle, all float64 }

func readMachineTime() (m machineTime, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first)
	if len(fields) < 9 || fields[0] != "cpu" {
		return m, fmt.Errorf("unexpected first line of /proc/stat: %q", first)
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal; guests count as user
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return m, err
		}
		m.all += v
		if i == 3 || i == 4 {
			m.idle += v
		}
	}
	return m, nil
}

// freeSince is the part of the machine's CPU time since then that nobody used.
func (m machineTime) freeSince(then machineTime) float64 {
	return (m.idle - then.idle) / max(m.all-then.all, 1)
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
