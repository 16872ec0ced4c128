package backend

import (
	"errors"
	"strings"
	"testing"

	"pgkinetic/configs"
	"pgkinetic/protocol"
)

// TestJudgeRole: every attribute against every report, as the documentation of libpq has it.
func TestJudgeRole(t *testing.T) {
	report := func(standby, readOnly string) *Params {
		p := &Params{}
		if standby != "" {
			p.Set([]byte("in_hot_standby"), []byte(standby))
		}
		if readOnly != "" {
			p.Set([]byte("default_transaction_read_only"), []byte(readOnly))
		}
		return p
	}
	reports := []*Params{report("off", "off"), report("off", "on"), report("on", "off"), report("on", "on"), report("", "")}
	for attrs, want := range map[configs.SessionAttrs][5]Fit{
		configs.SessionAny:           {Fits, Fits, Fits, Fits, Fits},
		"":                           {Fits, Fits, Fits, Fits, Fits},
		configs.SessionReadWrite:     {Fits, Unfit, Unfit, Unfit, FitUnknown},
		configs.SessionReadOnly:      {Unfit, Fits, Fits, Fits, FitUnknown},
		configs.SessionPrimary:       {Fits, Fits, Unfit, Unfit, FitUnknown},
		configs.SessionStandby:       {Unfit, Unfit, Fits, Fits, FitUnknown},
		configs.SessionPreferStandby: {Unfit, Unfit, Fits, Fits, FitUnknown},
	} {
		for i, p := range reports {
			if got := JudgeRole(attrs, p); got != want[i] {
				t.Errorf("%q, report %d: %d, want %d", attrs, i, got, want[i])
			}
		}
	}
}

// TestJudgeRoleAnswer: the same of older servers, which are asked.
func TestJudgeRoleAnswer(t *testing.T) {
	for _, c := range []struct {
		attrs   configs.SessionAttrs
		asks    string
		yes, no Fit
	}{
		{configs.SessionReadWrite, "transaction_read_only", Unfit, Fits},
		{configs.SessionReadOnly, "transaction_read_only", Fits, Unfit},
		{configs.SessionPrimary, "pg_is_in_recovery", Unfit, Fits},
		{configs.SessionStandby, "pg_is_in_recovery", Fits, Unfit},
		{configs.SessionPreferStandby, "pg_is_in_recovery", Fits, Unfit},
	} {
		yes, no := "t", "f"
		if c.asks == "transaction_read_only" {
			yes, no = "on", "off"
		}
		if q := RoleQuery(c.attrs); !strings.Contains(q, c.asks) {
			t.Errorf("%s asks %q", c.attrs, q)
		}
		row := func(value string) []byte { return append([]byte{0, 1, 0, 0, 0, byte(len(value))}, value...) }
		if got := JudgeRoleAnswer(c.attrs, row(yes)); got != c.yes {
			t.Errorf("%s, %s: %d", c.attrs, yes, got)
		}
		if got := JudgeRoleAnswer(c.attrs, row(no)); got != c.no {
			t.Errorf("%s, %s: %d", c.attrs, no, got)
		}
	}
}

// TestRoleError: what a client is told names host and attribute.
func TestRoleError(t *testing.T) {
	err := error(&RoleError{Host: "db2:5432", Attrs: configs.SessionReadWrite})
	if ClassOf(err) != LoginFault || AnswerOf(err).Code != protocol.CodeConnectionFailure {
		t.Errorf("%v, %+v", ClassOf(err), AnswerOf(err))
	}
	for _, attrs := range []configs.SessionAttrs{"read-write", "read-only", "primary", "standby", "prefer-standby"} {
		text := (&RoleError{Host: "db2:5432", Attrs: attrs}).Error()
		if !strings.Contains(text, "db2:5432") || !strings.Contains(text, " "+string(attrs)+": it") {
			t.Error(text)
		}
	}
	var role *RoleError
	if !errors.As(err, &role) {
		t.Error("not found in its chain")
	}
}

// TestWhoseTurn: of several hosts that have failed the one whose delay ended first is next; what failed long ago is as
// good as unknown.
func TestWhoseTurn(t *testing.T) {
	var a, b, fresh HostState
	a.Failed(1000, errors.New("x"))
	b.Failed(2000, errors.New("x"))
	if !(fresh.DueAt() < a.DueAt() && a.DueAt() < b.DueAt()) {
		t.Errorf("due at %d, %d, %d", fresh.DueAt(), a.DueAt(), b.DueAt())
	}
	if fresh.FailedLately(1000, 50) || !a.FailedLately(1049, 50) || a.FailedLately(1050, 50) {
		t.Error("the memory of a failure does not last as long as it should")
	}
	if a.Succeeded(3000); a.FailedLately(1049, 50) || a.DueAt() != 0 {
		t.Error("a success does not end it")
	}
}
