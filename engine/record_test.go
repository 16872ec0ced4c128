package engine_test

import (
	"errors"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"pgkinetic/internal/pgmock"
	"pgkinetic/internal/pgtest"
	"pgkinetic/internal/pgwire"
)

var record = flag.Bool("record", false, "record testdata/recorded.txt anew from a PostgreSQL server")

const recordedFile = "testdata/recorded.txt"

// recordedNames are the dialogues of internal/difftest whose answers are recorded.
var recordedNames = []string{
	"simple/one_row",
	"simple/empty_query",
	"simple/several_statements_with_an_error_in_the_middle",
	"simple/five_queries_in_one_write",
	"simple/notices",
	"simple/reported_parameters",
	"extended/unnamed",
	"extended/named",
	"extended/parse_twice_under_one_name",
	"extended/statement_lives_on_after_a_failed_one",
	"extended/portal_with_row_limits_and_flush",
	"extended/two_portals_side_by_side",
	"extended/flush",
	"extended/error_comes_without_sync",
	"extended/notices_in_a_pipeline",
	"extended/set_taken_back_by_an_error_in_its_group",
	"pipeline/sync_alone",
	"pipeline/five_groups_with_an_error_in_the_third",
	"pipeline/failing_parse_then_query_then_sync",
	"pipeline/failing_parse_then_flush_and_close",
	"pipeline/query_in_the_middle_of_a_group",
	"pipeline/mixed",
	"pipeline/many_groups",
	"copy/out_in_extended_protocol",
	"copy/out_in_several_statements",
	"copy/in",
	"copy/in_without_waiting",
	"copy/in_with_bad_data",
	"copy/in_that_the_client_gives_up",
	"copy/in_refused_at_once_without_waiting",
	"copy/in_with_early_sync_and_flush",
	"copy/in_among_several_statements",
	"copy/in_in_extended_protocol_without_waiting",
	"copy/in_in_extended_protocol_with_an_early_sync",
	"copy/in_in_extended_protocol_with_bad_data",
	"copy/in_in_extended_protocol_refused_at_once",
	"copy/in_within_a_block",
	"copy/copy_messages_out_of_place",
	"function/function_calls_in_a_pipeline",
	"transaction/failed_block",
	"transaction/block_across_groups_in_one_write",
	"transaction/deferred_constraint_fails_at_sync_with_more_behind",
	"large/query_just_above_16_KiB",
	"large/bind_just_above_16_KiB",
	"large/copy_data_just_above_16_KiB",
}

// TestRecordDialogues is not a test of its own: it makes the file that the tests of offsets play.
func TestRecordDialogues(t *testing.T) {
	if !*record {
		t.Skip("not asked to record")
	}
	pg := pgtest.Start(t)
	dialogues := dialoguesByName(t)
	text := "PostgreSQL " + pg.Value(t, "show server_version") + "\n"
	for _, name := range recordedNames {
		d := dialogues[name]
		if d == nil {
			t.Fatalf("there is no dialogue %s", name)
		}
		pg.Exec(t, strings.Join(d.Setup, ";"))
		text += answersTo(t, pg, messagesOf(d)).Format(name)
	}
	if err := os.WriteFile(recordedFile, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// answersTo sends one message at a time, a Flush behind each, so that every answer is known to be that message's.
func answersTo(t *testing.T, pg *pgtest.Server, messages [][]byte) (r pgmock.Recording) {
	t.Helper()
	c := pgwire.Login(t, "unix", pg.SocketPath(), "user", "postgres", "database", "postgres")
	defer c.Close()
	for _, m := range messages {
		x := pgmock.Exchange{Sent: m}
		send(t, c, m)
		if m[0] != 'X' {
			send(t, c, pgwire.Flush())
			for !c.Silent(100 * time.Millisecond) {
				a, err := c.Read()
				if err != nil {
					t.Fatal(errors.Join(err, errors.New("the dialogue is not one that goes on to its end")))
				}
				x.Answer = append(x.Answer, pgwire.Raw(a.Type, a.Body)...)
			}
		}
		r = append(r, x)
	}
	return r
}
