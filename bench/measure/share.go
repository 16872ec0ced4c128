package measure

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Machine is what the CPUs have spent since the machine started, in seconds: idle, everything together, and what the
// measurement has.
type Machine struct{ Idle, All, Ours float64 }

// Watch reads the machine. Roots are the processes that are a part of the measurement, with their descendants: the pooler,
// the postmaster. This process with its children always is. What the kernel did in interrupts counts as ours: on a machine
// that measures it is the loopback's traffic.
type Watch struct{ Roots []int }

// Read reads the machine now.
func (w Watch) Read() (m Machine, err error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return m, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	if m, err = readStat(first); err != nil {
		return m, err
	}
	u, err := Of(append([]int{os.Getpid()}, w.Roots...)...)
	m.Ours += u.Seconds()
	return m, err
}

// readStat reads the first line of /proc/stat; ours holds the interrupts only.
func readStat(line string) (m Machine, err error) {
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return m, fmt.Errorf("unexpected first line of /proc/stat: %q", line)
	}
	for i, field := range fields[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal; guests count as user
		v, err := strconv.ParseFloat(field, 64)
		if err != nil {
			return m, err
		}
		v /= clockTick
		m.All += v
		switch i {
		case 3, 4:
			m.Idle += v
		case 5, 6:
			m.Ours += v
		}
	}
	return m, nil
}

// Share is how a run found the machine: the part of it that nobody used, and the part that strangers to it used.
type Share struct{ Free, Others float64 }

// Since is the share of the time since then.
func (m Machine) Since(then Machine) Share {
	all := max(m.All-then.All, 1.0/clockTick)
	free := (m.Idle - then.Idle) / all
	return Share{free, max(1-free-(m.Ours-then.Ours)/all, 0)}
}

// MinFree is the part of the machine that must be free where latency under a load that does not fill it is measured, and
// MaxOthers what processes that are no part of a measurement may use: where everything waits for the CPU, the pooler's part in
// it cannot be told.
const (
	MinFree   = 0.4
	MaxOthers = 0.05
)

// Calm tells that strangers did not disturb the run.
func (s Share) Calm() bool { return s.Others <= MaxOthers }

// Roomy tells that the run was calm, and that the machine was not full either.
func (s Share) Roomy() bool { return s.Calm() && s.Free >= MinFree }

// Worse is the worse of two.
func (s Share) Worse(t Share) Share { return Share{min(s.Free, t.Free), max(s.Others, t.Others)} }
