package measure

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// perfEvent counts every system call as it is entered.
const perfEvent = "raw_syscalls:sys_enter"

// Perf is why system calls cannot be counted here; nil if they can. It needs the program perf and the right to use it.
var Perf = sync.OnceValue(func() error {
	report, err := exec.Command("perf", "stat", "-x,", "-e", perfEvent, "true").CombinedOutput()
	if err != nil {
		return fmt.Errorf("perf stat: %w: %s", err, strings.TrimSpace(string(report)))
	}
	_, err = readPerf(string(report))
	return err
})

// CountSyscalls runs the command and gives the number of system calls of the processes (and of threads that they start) while
// it ran. It slows the processes down: what else the command measures does not count.
func CountSyscalls(pids []int, report string, cmd *exec.Cmd) (float64, error) {
	var list []string
	for _, pid := range pids {
		list = append(list, strconv.Itoa(pid))
	}
	args := []string{"perf", "stat", "-x,", "-e", perfEvent, "-p", strings.Join(list, ","), "-o", report, "--", cmd.Path}
	perf, err := exec.LookPath("perf")
	if err != nil {
		return 0, err
	}
	cmd.Path, cmd.Args = perf, append(args, cmd.Args[1:]...)
	if err := cmd.Run(); err != nil {
		return 0, err
	}
	text, err := os.ReadFile(report)
	if err != nil {
		return 0, err
	}
	return readPerf(string(text))
}

// readPerf reads the line of the event in what `perf stat -x,` writes: the count is the first field.
func readPerf(report string) (float64, error) {
	for line := range strings.Lines(report) {
		if count, _, _ := strings.Cut(line, ","); strings.Contains(line, perfEvent) {
			n, err := strconv.ParseFloat(count, 64)
			if err != nil {
				return 0, fmt.Errorf("perf stat counted nothing: %s", strings.TrimSpace(line))
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("perf stat does not name the event: %q", report)
}
