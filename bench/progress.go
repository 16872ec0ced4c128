package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// progress is one line on a terminal that is written again and again; nothing where there is no terminal.
type progress struct {
	w           io.Writer // nil: no terminal
	done, total int       // rounds
	began       time.Time
	shown       bool
}

// newProgress shows how far a run of so many rounds is, if the file is a terminal.
func newProgress(f *os.File, total int) *progress {
	p := &progress{total: total, began: time.Now()}
	if _, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS); err == nil {
		p.w = f
	}
	return p
}

// clearLine goes to the first column and clears the line.
const clearLine = "\r\x1b[K"

// show says what runs now.
func (p *progress) show(what string) {
	if p.w == nil {
		return
	}
	p.shown = true
	fmt.Fprintf(p.w, "%s%s", clearLine, p.line(what, time.Since(p.began)))
}

func (p *progress) line(what string, spent time.Duration) string {
	text := fmt.Sprintf("%d of %d rounds, %v", p.done, p.total, spent.Round(time.Second))
	if p.done > 0 {
		left := spent * time.Duration(max(p.total-p.done, 0)) / time.Duration(p.done)
		text += fmt.Sprintf(", about %v left", left.Round(time.Second))
	}
	return text + ": " + what
}

// step counts rounds.
func (p *progress) step(n int) { p.done += n }

// clear makes room for what stays on the terminal.
func (p *progress) clear() {
	if p.shown {
		fmt.Fprint(p.w, clearLine)
		p.shown = false
	}
}
