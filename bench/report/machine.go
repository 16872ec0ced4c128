package report

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine is what was measured on, as far as it matters for the figures.
type Machine struct {
	CPUs       int    `json:"cpus"`
	CPU        string `json:"cpu"`
	MemoryGiB  int    `json:"memory_gib"`
	Kernel     string `json:"kernel"`
	Go         string `json:"go"` // of the harness
	PostgreSQL string `json:"postgresql"`
}

// ThisMachine describes the machine; what it does not tell is left empty.
func ThisMachine(postgres string) Machine {
	m := Machine{CPUs: runtime.NumCPU(), Go: runtime.Version(), PostgreSQL: postgres}
	m.CPU = entry("/proc/cpuinfo", "model name")
	kib, _ := strconv.Atoi(strings.TrimSuffix(entry("/proc/meminfo", "MemTotal"), " kB"))
	m.MemoryGiB = (kib + 1<<19) >> 20
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), "-") // without what a distribution adds
		m.Kernel = unix.ByteSliceToString(name.Sysname[:]) + " " + release
	}
	return m
}

// entry is the first value of a name in a file of lines "name : value".
func entry(path, name string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Like tells whether figures of both can be compared: ratios to another program's depend on what system calls cost.
func (m Machine) Like(n Machine) bool { return m.CPUs == n.CPUs && m.CPU == n.CPU }

func (m Machine) String() string {
	return fmt.Sprintf("%d CPUs (%s), %d GiB, %s, PostgreSQL %s, %s", m.CPUs, m.CPU, m.MemoryGiB, m.Kernel, m.PostgreSQL, m.Go)
}
