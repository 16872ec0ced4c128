package engine

// Errors by SQLSTATE: what PostgreSQL has answered, and what clients were told by
// the pooler itself (SHOW ERRORS).
//
// Owner: each loop writes its own table, under the table's mutex, which only who
// looks takes beside it. An error that is already known allocates nothing.
//
// Invariant: a table has at most faultsMax codes of each source, and "other".

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"pgkinetic/admin/view"
	"pgkinetic/engine/reactor"
	"pgkinetic/protocol"
)

const (
	// faultsMax bounds the codes that are told apart.
	faultsMax = 200
	// faultText bounds what is kept of a message, in bytes.
	faultText = 200
)

// faultKey is a SQLSTATE of one source; otherCode is not one.
type faultKey struct {
	ours bool
	code [5]byte
}

var otherCode = [5]byte([]byte(otherLabel))

type fault struct {
	count uint64
	at    int64
	text  []byte // the latest message, if it was ours
	route *routeStats
}

type faults struct {
	mu    sync.Mutex
	of    map[faultKey]*fault
	codes [2]int // of PostgreSQL, of ours
}

// answered counts an error that PostgreSQL has answered to a client of a route, if
// to one. Its message may quote what the client has sent, so it is not kept.
func (f *faults) answered(code []byte, route *route, now int64) {
	k := faultKey{code: otherCode}
	if len(code) == len(k.code) {
		k.code = [5]byte(code)
	}
	f.count(k, "", route, now)
}

// told counts an error of ours.
func (f *faults) told(e *protocol.ErrorFields, route *route, now int64) {
	k := faultKey{ours: true, code: otherCode}
	if len(e.Code) == len(k.code) {
		k.code = [5]byte([]byte(e.Code))
	}
	text := e.Message
	if strings.HasPrefix(e.Code, "22") { // it quotes a value
		text = ""
	}
	f.count(k, text, route, now)
}

func (f *faults) count(k faultKey, text string, route *route, now int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.of[k]
	if e == nil {
		e = f.add(k)
	}
	e.count++
	e.at = now
	e.text = append(e.text[:0], text[:min(len(text), faultText)]...)
	e.route = nil
	if route != nil {
		e.route = route.stats
	}
}

func (f *faults) add(k faultKey) *fault {
	source := number(k.ours)
	if f.codes[source] >= faultsMax && k.code != otherCode {
		k.code = otherCode
		if e := f.of[k]; e != nil {
			return e
		}
	}
	if f.of == nil {
		f.of = map[faultKey]*fault{}
	}
	f.codes[source]++
	e := &fault{}
	f.of[k] = e
	return e
}

// faultSums are those of all loops together.
func (e *Engine) faultSums() map[faultKey]fault {
	all := map[faultKey]fault{}
	for _, w := range e.workers {
		f := &w.faults
		f.mu.Lock()
		for k, one := range f.of {
			sum := all[k]
			if one.at >= sum.at {
				sum.at, sum.route, sum.text = one.at, one.route, slices.Clone(one.text)
			}
			sum.count += one.count
			all[k] = sum
		}
		f.mu.Unlock()
	}
	return all
}

// Errors shows every SQLSTATE that PostgreSQL has answered or that clients were told
// by the pooler itself, by source and code. Any goroutine.
func (e *Engine) Errors() []view.Fault {
	all, now := e.faultSums(), reactor.Now()
	keys := slices.SortedFunc(maps.Keys(all), func(a, b faultKey) int {
		return cmp.Or(cmp.Compare(number(a.ours), number(b.ours)), cmp.Compare(string(a.code[:]), string(b.code[:])))
	})
	rows := make([]view.Fault, 0, len(keys))
	for _, k := range keys {
		one := all[k]
		row := view.Fault{
			Source: "postgresql", SQLState: string(k.code[:]), Count: one.count, Last: wallTime(now, one.at).Truncate(time.Millisecond),
			Message: strings.ToValidUTF8(string(one.text), ""),
		}
		if k.ours {
			row.Source = "pooler"
		}
		if row.Message == "" {
			row.Message = conditionNames[row.SQLState]
		}
		if one.route != nil {
			row.Route = one.route.label
		}
		rows = append(rows, row)
	}
	return rows
}

// told counts an error that c is told by us.
func (c *client) told(e *protocol.ErrorFields) { c.w.faults.told(e, c.route, c.w.now()) }
