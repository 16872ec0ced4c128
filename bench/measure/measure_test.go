package measure

import (
	"math"
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestUsageOfThisProcess(t *testing.T) {
	before, err := Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after := before
	for n := 0; after.Seconds() <= before.Seconds(); n++ { // burns CPU until a tick is counted
		if after, err = Of(os.Getpid()); err != nil || n > 1_000_000 {
			t.Fatalf("after %d turns: %+v, %v", n, after, err)
		}
	}
	if after.Switches <= 0 || after.Minus(before).Seconds() <= 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
	if bytes, err := Resident(os.Getpid()); err != nil || bytes < 1<<20 {
		t.Errorf("resident memory of this test: %d bytes, %v", bytes, err)
	}
	if _, err := Of(1 << 30); err == nil {
		t.Error("a process that does not exist has used something")
	}
}

func TestTimesOfAStatFile(t *testing.T) {
	const stat = "42 (a) b) (c) S 1 42 42 0 -1 4194560 1 2 3 4 150 250 1000 2000 20 0 1 0 5 6 7"
	if user, system, err := times(stat); err != nil || user != 11.5 || system != 22.5 {
		t.Errorf("%v, %v, %v", user, system, err)
	}
	for _, bad := range []string{"", "42 (a) S 1", "42 (a) S 1 2 3 4 5 6 7 8 9 10 x 2 3 4 5 6"} {
		if _, _, err := times(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestTreeHoldsChildren(t *testing.T) {
	cmd := exec.Command("sh", "-c", "sh -c 'read x; exit'; exit")
	pipe, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer pipe.Close()
	for n := 0; ; n++ { // until the shell has started its own child
		pids, err := Tree(os.Getpid())
		if err != nil || n > 1_000_000 {
			t.Fatal(pids, err)
		}
		if below, _ := Tree(cmd.Process.Pid); slices.Contains(pids, cmd.Process.Pid) && len(below) == 2 {
			return
		}
	}
}

func TestPeakOfMemory(t *testing.T) {
	end := PeakResident(os.Getpid())
	if peak, err := end(); err != nil || peak < 1<<20 {
		t.Errorf("%d bytes, %v", peak, err)
	}
	if _, err := PeakResident(1 << 30)(); err == nil {
		t.Error("a process that does not exist has memory")
	}
}

func TestPostmasterOfNoBackend(t *testing.T) {
	if pid := Postmaster(os.Getpid()); pid != 0 {
		t.Errorf("this test is a backend of %d", pid)
	}
}

func TestShareOfTheMachine(t *testing.T) {
	then := Machine{Idle: 10, All: 100, Ours: 5}
	for _, c := range []struct {
		now         Machine
		want        Share
		calm, roomy bool
	}{
		{Machine{15, 110, 10}, Share{0.5, 0}, true, true},
		{Machine{15, 110, 9}, Share{0.5, 0.1}, false, false},
		{Machine{13, 110, 12}, Share{0.3, 0}, true, false},
		{then, Share{0, 1}, false, false}, // no time has passed
	} {
		got := c.now.Since(then)
		if math.Abs(got.Free-c.want.Free) > 1e-9 || math.Abs(got.Others-c.want.Others) > 1e-9 || got.Calm() != c.calm ||
			got.Roomy() != c.roomy {
			t.Errorf("%+v: %+v, calm %v, roomy %v; want %+v, %v, %v", c.now, got, got.Calm(), got.Roomy(), c.want, c.calm, c.roomy)
		}
	}
	if got := (Share{0.5, 0.02}).Worse(Share{0.4, 0.01}); got != (Share{0.4, 0.02}) {
		t.Errorf("the worse of two: %+v", got)
	}
}

func TestInterruptsAreOurs(t *testing.T) {
	m, err := readStat("cpu  100 200 300 4000 500 60 70 800 9 9")
	if err != nil || math.Abs(m.All-60.3) > 1e-9 || m.Idle != 45 || math.Abs(m.Ours-1.3) > 1e-9 {
		t.Errorf("%+v, %v", m, err)
	}
	for _, bad := range []string{"", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 3", "cpu 1 2 3 4 5 6 7 x"} {
		if _, err := readStat(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	w := Watch{Roots: []int{os.Getppid()}}
	if m, err := w.Read(); err != nil || m.All <= m.Idle || m.Ours <= 0 {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestPerfReport(t *testing.T) {
	n, err := readPerf("# started on Mon\n\n20123,,raw_syscalls:sys_enter,2001042132,100.00,,\n")
	if err != nil || n != 20123 {
		t.Errorf("%v, %v", n, err)
	}
	for _, bad := range []string{"", "<not counted>,,raw_syscalls:sys_enter,0,0.00,,\n"} {
		if _, err := readPerf(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// Where perf may count, it counts the calls of a process while a command runs.
func TestCountSyscalls(t *testing.T) {
	if err := Perf(); err != nil {
		t.Skip(err)
	}
	busy := exec.Command("yes") // its output goes nowhere, a write at a time
	if err := busy.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = busy.Process.Kill(), busy.Wait() }()
	pids := []int{busy.Process.Pid}
	if n, err := CountSyscalls(pids, t.TempDir()+"/report", exec.Command("sleep", "0.1")); err != nil || n < 10 {
		t.Errorf("%v, %v", n, err)
	}
	if _, err := CountSyscalls(pids, t.TempDir()+"/report", exec.Command("false")); err == nil {
		t.Error("a command that fails was taken")
	}
}
