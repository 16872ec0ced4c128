package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"pgkinetic/configs"
)

// slowReader is a log's reader that takes nothing for a while.
type slowReader struct {
	bytes.Buffer
	entered chan struct{} // one value for each line that is waiting to be taken
	open    chan struct{} // closed when lines are taken
}

func (r *slowReader) Write(p []byte) (int, error) {
	select {
	case r.entered <- struct{}{}:
	default:
	}
	<-r.open
	return r.Buffer.Write(p)
}

// Lines for which there is no room are counted, and the count is told in the log's own format; the loops never wait.
func TestLogSinkDropsAndTells(t *testing.T) {
	reader := &slowReader{entered: make(chan struct{}, 1), open: make(chan struct{})}
	sink := newLogSink(reader, newLogStyle(configs.Log{Level: "error", Format: "json"}))
	write := func() {
		if _, err := io.WriteString(sink, `{"msg":"a line"}`+"\n"); err != nil {
			t.Error(err)
		}
	}
	write()
	<-reader.entered // this line is out of the queue
	for range sinkLines + 7 {
		write()
	}
	close(reader.open)
	sink.Close()
	lines := strings.Split(strings.TrimSpace(reader.String()), "\n")
	told := 0
	for _, line := range lines {
		var fields struct {
			Msg   string
			Lines int
		}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if fields.Lines > 0 {
			told += fields.Lines
		}
	}
	if len(lines) != sinkLines+2 || told != 7 {
		t.Errorf("%d lines, %d told to be lost; want %d and 7", len(lines), told, sinkLines+2)
	}
}

// Nobody who reads: the process ends all the same, and so does whoever logs behind the end.
func TestLogSinkEnds(t *testing.T) {
	reader := &slowReader{entered: make(chan struct{}, 1), open: make(chan struct{})}
	sink := newLogSink(reader, newLogStyle(configs.Log{Level: "error", Format: "json"}))
	sink.patience = time.Millisecond
	if _, err := io.WriteString(sink, "a line\n"); err != nil {
		t.Error(err)
	}
	<-reader.entered
	sink.Close()
	for range sinkLines + 1 {
		if _, err := io.WriteString(sink, "another\n"); err != nil {
			t.Error(err)
		}
	}
	close(reader.open)
	<-sink.done
}
