package reactor

import (
	"os"

	"golang.org/x/sys/unix"

	"pgkinetic/reaper"
)

// Wheel returns the loop's timing wheel. It advances in ticks of 10 ms while
// anything is pending in it. Loop only.
func (l *Loop) Wheel() *reaper.Wheel { return l.wheel }

// armTimer starts the periodic timerfd if timers are pending.
func (l *Loop) armTimer() {
	if l.timerArmed || l.wheel.Len() == 0 {
		return
	}
	l.timerArmed = true
	l.idleTicks = 0
	l.setTimer(unix.NsecToTimespec(reaper.Tick))
}

func (l *Loop) setTimer(every unix.Timespec) {
	spec := unix.ItimerSpec{Interval: every, Value: every}
	if err := unix.TimerfdSettime(l.timerFD, 0, &spec, nil); err != nil {
		l.fail(os.NewSyscallError("timerfd_settime", err))
	}
}

// tick serves one expiry of the timerfd. The kernel restarts a periodic timer
// only when it is read.
func (l *Loop) tick() {
	drainCounter(l.timerFD)
	l.timersDue = l.wheel.Advance(l.now)
	if l.wheel.Len() > 0 {
		l.idleTicks = 0
		return
	}
	if l.idleTicks++; l.idleTicks >= idleTicksMax {
		l.timerArmed = false
		l.setTimer(unix.Timespec{})
	}
}
