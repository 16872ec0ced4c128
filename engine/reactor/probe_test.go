package reactor

import (
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

func newTimer(h reaper.Handler) *reaper.Timer {
	t := new(reaper.Timer)
	t.Init(h)
	return t
}

// timerRuns asks the kernel whether the loop's timerfd is armed.
func timerRuns(t testing.TB, l *Loop) bool {
	t.Helper()
	var spec unix.ItimerSpec
	if err := unix.TimerfdGettime(l.timerFD, &spec); err != nil {
		t.Fatal(err)
	}
	return spec.Value != unix.Timespec{}
}

// descriptorOpen reports whether fd is open in this process.
func descriptorOpen(fd int) bool {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	return err == nil
}

// TestSizes: an idle client has one socket, two chains and a message.
func TestSizes(t *testing.T) {
	for name, c := range map[string]struct{ size, limit uintptr }{
		"Socket":  {unsafe.Sizeof(Socket{}), 64},
		"Chain":   {unsafe.Sizeof(Chain{}), 32},
		"Message": {unsafe.Sizeof(Message{}), 48},
		"Timer":   {unsafe.Sizeof(reaper.Timer{}), 48},
	} {
		if c.size > c.limit {
			t.Errorf("%s has %d bytes, above %d", name, c.size, c.limit)
		}
	}
}
