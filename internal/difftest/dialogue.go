// Package difftest compares pg-kinetic with PostgreSQL: the same bytes to both must give the same messages.
//
// A dialogue is a list of client messages and of points at which the client reads; the files in testdata hold them, one
// message per line:
//
//	== name                    begins a dialogue
//	# text                     a comment
//	setup SQL                  run by the superuser before each run of the dialogue
//	param NAME VALUE           a start-up parameter
//	bytewise                   each byte is a write of its own
//	known REASON               the pooler differs from PostgreSQL here, and must do so until the line is removed
//	shared REASON              the same where clients share backends: in transaction and statement mode
//	violation                  the client breaks the protocol: errors are compared by severity and SQLSTATE only
//	Q SQL                      Query
//	P NAME SQL                 Parse; the name . is the unnamed one, here and below
//	B PORTAL STATEMENT VALUE…  Bind; NULL is a null
//	D S|P NAME                 Describe        C S|P NAME   Close
//	E PORTAL ROWS              Execute (0 = all)
//	S, H, X                    Sync, Flush, Terminate
//	F OID VALUE…               FunctionCall
//	d VALUE, c, f REASON       CopyData, CopyDone, CopyFail
//	raw TYPE VALUE             any type and body
//	send                       writes what has gathered, in one write
//	read TYPE N                writes, then reads up to the N-th message of the type (default 1)
//	eof                        writes, then reads to the end of the connection
//
// A VALUE is a bare word, a quoted Go string, repeat("x",N) or ints(N), which is N values; in SQL, {params N} stands for
// $1::int4, …, $N::int4 and {fill N} for N
// letters. A dialogue that does not end with eof ends with Terminate and the end of the connection.
package difftest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"pgkinetic/internal/pgwire"
)

// Step is a client message, or a point at which the client writes what has gathered and perhaps reads.
type Step struct {
	Line    int
	Message []byte // nil: a control step
	Write   bool
	Read    byte // a message type; 'eof' is readEnd
	Count   int
}

const readEnd = 0xff

// Dialogue is one scenario.
type Dialogue struct {
	Name     string
	Setup    []string
	Params   []string // start-up parameters: name, value, …
	Bytewise bool
	Lenient  bool   // violation
	Known    string // why the pooler may differ; "" = it may not
	Shared   string // the same, except in session mode
	Steps    []Step
}

// Load reads every dialogue of the directory's .txt files.
func Load(dir string) ([]*Dialogue, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	var all []*Dialogue
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		dialogues, err := parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s:%w", file, err)
		}
		prefix := strings.TrimSuffix(filepath.Base(file), ".txt")
		for _, d := range dialogues {
			d.Name = prefix + "/" + d.Name
		}
		all = append(all, dialogues...)
	}
	return all, nil
}

func parse(text string) ([]*Dialogue, error) {
	var all []*Dialogue
	var d *Dialogue
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "== "):
			d = &Dialogue{Name: strings.ReplaceAll(line[3:], " ", "_")}
			all = append(all, d)
		case d == nil:
			return nil, fmt.Errorf("%d: no dialogue has begun", i+1)
		default:
			if err := d.add(line, i+1); err != nil {
				return nil, fmt.Errorf("%d: %q: %w", i+1, line, err)
			}
		}
	}
	for _, d := range all {
		if n := len(d.Steps); n == 0 || d.Steps[n-1].Read != readEnd {
			d.Steps = append(d.Steps, Step{Message: pgwire.Terminate()}, Step{Write: true, Read: readEnd})
		}
	}
	return all, nil
}

func (d *Dialogue) add(line string, number int) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	step := Step{Line: number}
	switch word {
	case "setup":
		d.Setup = append(d.Setup, rest)
		return nil
	case "param":
		name, value, _ := strings.Cut(rest, " ")
		d.Params = append(d.Params, name, value)
		return nil
	case "bytewise":
		d.Bytewise = true
		return nil
	case "known":
		d.Known = rest
		return nil
	case "shared":
		d.Shared = rest
		return nil
	case "violation":
		d.Lenient = true
		return nil
	case "send":
		step.Write = true
	case "eof":
		step.Write, step.Read = true, readEnd
	case "read":
		step.Write, step.Count = true, 1
		typ, count, found := strings.Cut(rest, " ")
		if len(typ) != 1 {
			return fmt.Errorf("read wants one message type")
		}
		step.Read = typ[0]
		if found {
			var err error
			if step.Count, err = strconv.Atoi(count); err != nil {
				return err
			}
		}
	default:
		var err error
		if step.Message, err = encode(word, rest); err != nil {
			return err
		}
	}
	d.Steps = append(d.Steps, step)
	return nil
}

func encode(word, rest string) ([]byte, error) {
	switch word {
	case "Q":
		return pgwire.Query(expand(rest)), nil
	case "P":
		name, sql, _ := strings.Cut(rest, " ")
		return pgwire.Parse(unname(name), expand(sql)), nil
	case "S":
		return pgwire.Sync(), nil
	case "H":
		return pgwire.Flush(), nil
	case "X":
		return pgwire.Terminate(), nil
	case "c":
		return pgwire.CopyDone(), nil
	case "f":
		return pgwire.CopyFail(rest), nil
	}
	values, err := parseValues(rest)
	if err != nil {
		return nil, err
	}
	return encodeValues(word, values)
}

func encodeValues(word string, values [][]byte) ([]byte, error) {
	arg := func(i int) string {
		if i < len(values) {
			return unname(string(values[i]))
		}
		return ""
	}
	number := func(i int) uint32 {
		n, _ := strconv.ParseUint(arg(i), 10, 32)
		return uint32(n)
	}
	switch {
	case word == "B" && len(values) >= 2:
		return pgwire.Bind(arg(0), arg(1), values[2:]...), nil
	case word == "D" && len(values) == 2:
		return pgwire.Describe(arg(0)[0], arg(1)), nil
	case word == "C" && len(values) == 2:
		return pgwire.Close(arg(0)[0], arg(1)), nil
	case word == "E" && len(values) == 2:
		return pgwire.Execute(arg(0), number(1)), nil
	case word == "F" && len(values) >= 1:
		return pgwire.FunctionCall(number(0), values[1:]...), nil
	case word == "d" && len(values) == 1:
		return pgwire.CopyData(values[0]), nil
	case word == "raw" && len(values) == 2:
		return pgwire.Raw(arg(0)[0], values[1]), nil
	}
	return nil, fmt.Errorf("unknown message, or a wrong number of values (%d)", len(values))
}

func unname(name string) string {
	if name == "." {
		return ""
	}
	return name
}

var (
	paramsPattern = regexp.MustCompile(`\{(params|fill) (\d+)\}`)
	valuePattern  = regexp.MustCompile(`^(?:repeat\(("(?:[^"\\]|\\.)*"),(\d+)\)|ints\((\d+)\)|("(?:[^"\\]|\\.)*")|(\S+))\s*`)
)

func expand(sql string) string {
	return paramsPattern.ReplaceAllStringFunc(sql, func(found string) string {
		m := paramsPattern.FindStringSubmatch(found)
		n, _ := strconv.Atoi(m[2])
		if m[1] == "fill" {
			return strings.Repeat("f", n)
		}
		var b strings.Builder
		for i := range n {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, "$%d::int4", i+1)
		}
		return b.String()
	})
}

func parseValues(text string) ([][]byte, error) {
	var values [][]byte
	for text != "" {
		m := valuePattern.FindStringSubmatch(text)
		if m == nil {
			return nil, fmt.Errorf("no value at %q", text)
		}
		text = text[len(m[0]):]
		switch {
		case m[1] != "":
			s, err := strconv.Unquote(m[1])
			if err != nil {
				return nil, err
			}
			n, _ := strconv.Atoi(m[2])
			values = append(values, []byte(strings.Repeat(s, n)))
		case m[3] != "":
			n, _ := strconv.Atoi(m[3])
			for i := range n {
				values = append(values, strconv.AppendInt(nil, int64(i+1), 10))
			}
		case m[4] != "":
			s, err := strconv.Unquote(m[4])
			if err != nil {
				return nil, err
			}
			values = append(values, []byte(s))
		case m[5] == "NULL":
			values = append(values, nil)
		default:
			values = append(values, []byte(m[5]))
		}
	}
	return values, nil
}
