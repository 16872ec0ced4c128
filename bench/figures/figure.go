// Package figures is the vocabulary of the benchmarks: what is measured, in which unit, which way is better; rounds and their
// medians; criteria and how they are judged. It measures nothing and prints nothing.
package figures

import (
	"fmt"
	"slices"
)

// Figure names what was measured in one round of one target.
type Figure string

// The figures. A target lacks those that do not apply to it: PostgreSQL itself has no pooler whose CPU could be told.
const (
	TPS        Figure = "tps"
	Mean       Figure = "mean"
	P50        Figure = "p50"
	P95        Figure = "p95"
	P99        Figure = "p99"
	P999       Figure = "p999"
	Connecting Figure = "connecting"

	CPU       Figure = "cpu"
	CPUUser   Figure = "cpu_user"
	CPUSystem Figure = "cpu_system"
	Switches  Figure = "switches"
	Syscalls  Figure = "syscalls"
	Resident  Figure = "resident"
	Errors    Figure = "errors"

	Throughput  Figure = "throughput"
	CPUPerMB    Figure = "cpu_mb"
	Goodput     Figure = "goodput"
	Peak        Figure = "peak"
	Refusals    Figure = "refusals"
	TailOfBound Figure = "tail_of_bound"
	Growth      Figure = "growth"
	GrowthPart  Figure = "growth_part"
	RefusalCPU  Figure = "refusal_cpu"
	Alone       Figure = "p99_alone"
	Beside      Figure = "p99_beside"
	WrongOnes   Figure = "refused_interactive"
	BulkLoad    Figure = "bulk_refusals"
	Starved     Figure = "bulk_starved"
	IdleBytes   Figure = "idle_bytes"
	Unanswered  Figure = "unanswered"
	LastLogin   Figure = "last_login"
	LoginAlone  Figure = "login_alone"
	LoginBeside Figure = "login_beside"
	TurnedAway  Figure = "turned_away"
	Scrape      Figure = "scrape"
	ScrapeMost  Figure = "scrape_most"
	ScrapeCPU   Figure = "scrape_cpu"
	ScrapeLoops Figure = "scrape_loops"
	ScrapeSize  Figure = "scrape_size"
	Show        Figure = "show_clients"
	ShowMost    Figure = "show_clients_most"
	BesideShow  Figure = "p99_beside_show"
	Rows        Figure = "api_clients"
	RowsMost    Figure = "api_clients_most"
	BesideRows  Figure = "p99_beside_api"
)

// Info says how a figure is read.
type Info struct {
	Figure   Figure
	Label    string // of a column
	Unit     string // "" where it is a number of something that the label names
	Higher   bool   // more is better
	Decimals int
}

var all = []Info{
	{TPS, "tx/s", "1/s", true, 0},
	{Throughput, "MB/s", "MB/s", true, 1},
	{Mean, "mean", "ms", false, 3},
	{P50, "p50", "ms", false, 3},
	{P95, "p95", "ms", false, 3},
	{P99, "p99", "ms", false, 3},
	{P999, "p99.9", "ms", false, 3},
	{Connecting, "connecting", "ms", false, 3},
	{CPU, "CPU/tx", "µs", false, 2},
	{CPUPerMB, "CPU/MB", "µs", false, 1},
	{CPUUser, "user", "µs", false, 2},
	{CPUSystem, "system", "µs", false, 2},
	{Switches, "switches/tx", "", false, 2},
	{Syscalls, "syscalls/tx", "", false, 2},
	{Resident, "memory", "MiB", false, 1},
	{Errors, "errors", "", false, 0},
	{Peak, "peak", "1/s", true, 0},
	{Goodput, "goodput", "1/s", true, 0},
	{Refusals, "refused", "1/s", false, 0},
	{TailOfBound, "p99/bound", "", false, 3},
	{Growth, "memory growth", "MiB", false, 2},
	{GrowthPart, "in parts of it", "", false, 3},
	{RefusalCPU, "CPU/refusal", "µs", false, 2},
	{Alone, "p99 alone", "ms", false, 3},
	{Beside, "p99 beside", "ms", false, 3},
	{WrongOnes, "refused beside", "", false, 0},
	{BulkLoad, "bulk refused", "1/s", true, 0},
	{Starved, "bulk gaps", "", false, 0},
	{IdleBytes, "bytes/client", "B", false, 0},
	{Unanswered, "unanswered", "", false, 0},
	{LastLogin, "last login", "ms", false, 0},
	{LoginAlone, "login alone", "ms", false, 3},
	{LoginBeside, "login beside", "ms", false, 3},
	{TurnedAway, "turned away", "", false, 0},
	{Scrape, "scrape", "ms", false, 2},
	{ScrapeMost, "longest scrape", "ms", false, 2},
	{ScrapeCPU, "CPU/scrape", "ms", false, 2},
	{ScrapeLoops, "of it loops", "ms", false, 2},
	{ScrapeSize, "scrape sent", "KiB", false, 0},
	{Show, "SHOW CLIENTS", "ms", false, 1},
	{ShowMost, "longest", "ms", false, 1},
	{BesideShow, "p99 beside it", "ms", false, 3},
	{Rows, "/api/v1/clients", "ms", false, 1},
	{RowsMost, "longest", "ms", false, 1},
	{BesideRows, "p99 beside it", "ms", false, 3},
}

// All are the figures in the order in which tables show them. The slice is the caller's.
func All() []Info { return slices.Clone(all) }

// Info is what is known of the figure; ok is false when there is none of that name.
func (f Figure) Info() (info Info, ok bool) {
	i := slices.IndexFunc(all, func(i Info) bool { return i.Figure == f })
	if i < 0 {
		return Info{}, false
	}
	return all[i], true
}

// Format gives a value as tables show it, without its unit.
func (i Info) Format(v float64) string { return fmt.Sprintf("%.*f", i.Decimals, v) }

// Header is the label with the unit.
func (i Info) Header() string {
	if i.Unit == "" || i.Unit == "1/s" || i.Unit == "MB/s" {
		return i.Label
	}
	return i.Label + " " + i.Unit
}
