package pgbench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

func version(program string) (string, error) {
	out, err := exec.Command(program, "--version").Output()
	if err != nil {
		return "", err
	}
	_, number, _ := strings.Cut(strings.TrimSpace(string(out)), ") ")
	return number, nil
}

var (
	processed  = regexp.MustCompile(`(?m)^number of transactions actually processed: (\d+)`)
	failed     = regexp.MustCompile(`(?m)^number of failed transactions: (\d+)`)
	average    = regexp.MustCompile(`(?m)^latency average = ([\d.]+) ms`)
	connection = regexp.MustCompile(`(?m)^average connection time = ([\d.]+) ms`)
	initial    = regexp.MustCompile(`(?m)^initial connection time = ([\d.]+) ms`)
	rate       = regexp.MustCompile(`(?m)^tps = ([\d.]+)`)
)

// readReport reads what pgbench prints at its end.
func readReport(text string) (*Result, error) {
	number := func(pattern *regexp.Regexp) (v float64, there bool, err error) {
		m := pattern.FindStringSubmatch(text)
		if m == nil {
			return 0, false, nil
		}
		v, err = strconv.ParseFloat(m[1], 64)
		return v, true, err
	}
	transactions, some, err1 := number(processed)
	tps, timed, err2 := number(rate)
	mean, _, err3 := number(average)
	connecting, _, err4 := number(connection)
	failures, _, err5 := number(failed)
	beginning, _, err6 := number(initial)
	if err := errors.Join(err1, err2, err3, err4, err5, err6); err != nil {
		return nil, err
	}
	if !some || !timed || transactions == 0 {
		return nil, errors.New("no transaction was processed")
	}
	return &Result{
		Transactions: int(transactions), TPS: tps, Mean: mean, Connecting: connecting, Errors: int(failures),
		Initial: time.Duration(beginning * float64(time.Millisecond)),
	}, nil
}

// readErrors counts the clients that pgbench gave up, and gives the first message.
func readErrors(text string) (aborted int, first string) {
	for line := range strings.Lines(text) {
		message, ok := strings.CutPrefix(strings.TrimSpace(line), "pgbench: error: ")
		if !ok {
			continue
		}
		if first == "" {
			first = message
		}
		if strings.HasPrefix(message, "client ") {
			aborted++
		}
	}
	return aborted, first
}

func readLogFile(path string, latencies []float64) ([]float64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readLog(f, latencies)
}

// readLog appends the latencies in ms of a log's transactions: the third field, µs; a word there tells of a failed one.
func readLog(r io.Reader, latencies []float64) ([]float64, error) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		line := lines.Bytes()
		_, rest, _ := bytes.Cut(line, []byte{' '})
		_, rest, _ = bytes.Cut(rest, []byte{' '})
		field, _, more := bytes.Cut(rest, []byte{' '})
		if !more {
			return nil, fmt.Errorf("unexpected line in pgbench's log: %q", line)
		}
		if field[0] < '0' || field[0] > '9' {
			continue
		}
		us, err := strconv.ParseFloat(string(field), 64)
		if err != nil {
			return nil, fmt.Errorf("unexpected line in pgbench's log: %q", line)
		}
		latencies = append(latencies, us/1000)
	}
	return latencies, lines.Err()
}

// limited keeps the front of what a program prints: one of a thousand clients that all fail prints much.
type limited struct{ bytes.Buffer }

const maxOutput = 64 << 10

func (l *limited) Write(p []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Buffer.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
