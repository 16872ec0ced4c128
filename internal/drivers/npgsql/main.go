// Command npgsql plays what Npgsql sends, since its toolchain is seldom there: statements prepared under names of its own
// (_p1, _p2, the same in every session), and, when its pool hands a session to the next user, the reset packed before that
// user's first command: one write, two ReadyForQuery to come. It speaks the protocol itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"pgkinetic/internal/drivers/report"
	"pgkinetic/internal/pgwire"
)

func main() {
	os.Exit(report.Run("as of 8.0", []report.Scenario{
		{Name: "prepare", Run: with(prepare)},
		{Name: "workers", Run: workers},
		{Name: "error", Run: with(failing)},
		{Name: "transaction", Run: with(transaction)},
		{Name: "setting", Run: with(setting)},
		{Name: "reset", Run: with(reset)},
	}))
}

// The resets of a session without prepared statements, and of one that is to keep them.
const (
	discardAll = "DISCARD ALL"
	keepPlans  = "SET SESSION AUTHORIZATION DEFAULT;RESET ALL;CLOSE ALL;UNLISTEN *;SELECT pg_advisory_unlock_all();DISCARD SEQUENCES;DISCARD TEMP"
)

func connect() (*pgwire.Conn, error) {
	c, err := pgwire.Open("tcp", report.Addr())
	if err != nil {
		return nil, err
	}
	_, err = c.Login(0, "user", "postgres", "database", "postgres", "client_encoding", "UTF8", "TimeZone", "UTC")
	return c, err
}

func with(scenario func(*pgwire.Conn) error) func(context.Context) error {
	return func(context.Context) error {
		c, err := connect()
		if err != nil {
			return err
		}
		defer c.Close()
		return scenario(c)
	}
}

// exchange sends one write and reads n ReadyForQuery. It gives the first column of all rows and the first error's SQLSTATE.
func exchange(c *pgwire.Conn, n int, messages ...[]byte) (values []string, state string, err error) {
	if err := c.Send(messages...); err != nil {
		return nil, "", err
	}
	all, err := c.ReadUntil('Z', n)
	if err != nil {
		return nil, "", fmt.Errorf("%w after %s", err, pgwire.Transcript(all))
	}
	for _, m := range all {
		switch m.Type {
		case 'D':
			values = append(values, pgwire.Values(m)[0])
		case 'E':
			if state == "" {
				state = pgwire.ErrorOf(m).Code()
			}
		}
	}
	return values, state, nil
}

// expect is exchange with the only right outcome.
func expect(c *pgwire.Conn, n int, values []string, state string, messages ...[]byte) error {
	got, failed, err := exchange(c, n, messages...)
	if err != nil {
		return err
	}
	if failed != state || !slices.Equal(got, values) {
		return fmt.Errorf("got %q and SQLSTATE %q, want %q and %q", got, failed, values, state)
	}
	return nil
}

// plan is what Prepare sends, execute what a prepared command sends, command what any other sends.
func plan(name, sql string) []byte {
	return slices.Concat(pgwire.Parse(name, sql), pgwire.Describe('S', name), pgwire.Sync())
}

func execute(name string, params ...[]byte) []byte {
	return slices.Concat(pgwire.Bind("", name, params...), pgwire.Execute("", 0), pgwire.Sync())
}

func command(sql string, params ...[]byte) []byte {
	return slices.Concat(pgwire.Parse("", sql), pgwire.Bind("", "", params...), pgwire.Describe('P', ""), pgwire.Execute("", 0), pgwire.Sync())
}

func prepare(c *pgwire.Conn) error {
	pids := map[int]bool{}
	for name, sql := range map[string]string{"_p1": "SELECT pg_backend_pid()", "_p2": "SELECT $1 || '/2'"} {
		if err := expect(c, 1, nil, "", plan(name, sql)); err != nil {
			return err
		}
	}
	for i := range 60 {
		values, state, err := exchange(c, 1, execute("_p1"))
		if err != nil || state != "" || len(values) != 1 {
			return fmt.Errorf("_p1: %q %q %w", values, state, err)
		}
		pid, err := strconv.Atoi(values[0])
		if err != nil {
			return err
		}
		pids[pid] = true
		if err := expect(c, 1, []string{fmt.Sprintf("%d/2", i)}, "", execute("_p2", []byte(strconv.Itoa(i)))); err != nil {
			return err
		}
	}
	report.Backends(pids)
	return expect(c, 1, nil, "26000", pgwire.Close('S', "_p2"), execute("_p2", []byte("1")))
}

// workers prepare different texts under one name.
func workers(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for n := range 8 {
		group.Go(func() error {
			return with(func(c *pgwire.Conn) error {
				if err := expect(c, 1, nil, "", plan("_p1", fmt.Sprintf("SELECT '%d ' || $1", n))); err != nil {
					return err
				}
				for i := range 20 {
					want := []string{fmt.Sprintf("%d %d", n, i)}
					if err := expect(c, 1, want, "", execute("_p1", []byte(strconv.Itoa(i)))); err != nil {
						return err
					}
				}
				return nil
			})(ctx)
		})
	}
	return group.Wait()
}

func failing(c *pgwire.Conn) error {
	for i := range 5 {
		name := fmt.Sprintf("_p%d", i)
		err := errors.Join(
			expect(c, 1, nil, "22012", command("SELECT 1 / $1::int", []byte("0"))),
			expect(c, 1, nil, "42P01", plan(name, "SELECT * FROM no_such_table")),
			expect(c, 1, []string{"1"}, "", command("SELECT $1", []byte("1"))),
			expect(c, 2, nil, "22012", pgwire.Query("BEGIN"), command("SELECT 1/0")),
			expect(c, 1, nil, "25P02", command("SELECT 1")),
			expect(c, 1, nil, "", pgwire.Query("ROLLBACK")),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// transaction packs BEGIN before the first command, as Npgsql does.
func transaction(c *pgwire.Conn) error {
	for _, t := range []struct{ end, count string }{{"ROLLBACK", "0"}, {"COMMIT", "1"}} {
		err := errors.Join(
			expect(c, 2, nil, "", pgwire.Query("BEGIN TRANSACTION ISOLATION LEVEL READ COMMITTED"), command("INSERT INTO items VALUES ($1, 'row')", []byte("1"))),
			expect(c, 1, []string{"1"}, "", command("SELECT count(*) FROM items")),
			expect(c, 1, nil, "", pgwire.Query(t.end)),
			expect(c, 1, []string{t.count}, "", command("SELECT count(*) FROM items")),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func setting(c *pgwire.Conn) error {
	other, err := connect()
	if err != nil {
		return err
	}
	defer other.Close()
	if err := expect(c, 1, nil, "", pgwire.Query("SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'")); err != nil {
		return err
	}
	for range 20 {
		err := errors.Join(
			expect(c, 1, []string{"tenant Asia/Tokyo"}, "", command("SELECT name || ' ' || current_setting('TimeZone') FROM place")),
			expect(other, 1, []string{"public UTC"}, "", command("SELECT name || ' ' || current_setting('TimeZone') FROM place")),
		)
		if err != nil {
			return err
		}
	}
	return nil
}

// reset hands a session from user to user: each leaves settings, a channel, a cursor and a prepared statement behind, each
// starts with the reset and its first command in one write.
func reset(c *pgwire.Conn) error {
	if err := expect(c, 1, nil, "", plan("_p1", "SELECT 'kept ' || $1")); err != nil {
		return err
	}
	for i := range 10 {
		dirt := "SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'; LISTEN news; CREATE TEMP TABLE left_over(a int); " +
			"BEGIN; DECLARE left_open CURSOR WITH HOLD FOR SELECT 1; COMMIT"
		clean := command("SELECT name || ' ' || current_setting('TimeZone') || ' ' || (to_regclass('left_over') IS NULL) || ' ' || (SELECT count(*) FROM pg_cursors WHERE name = 'left_open') FROM place")
		err := errors.Join(
			expect(c, 1, nil, "", pgwire.Query(dirt)),
			expect(c, 2, []string{"", "public UTC true 0"}, "", pgwire.Query(keepPlans), clean),
			expect(c, 2, []string{"", fmt.Sprintf("kept %d", i)}, "", pgwire.Query(keepPlans), execute("_p1", []byte(strconv.Itoa(i)))),
		)
		if err != nil {
			return err
		}
	}
	err := errors.Join(
		expect(c, 2, []string{"public UTC"}, "", pgwire.Query(discardAll), command("SELECT name || ' ' || current_setting('TimeZone') FROM place")),
		expect(c, 1, nil, "26000", execute("_p1", []byte("1"))), // discarded with all the rest
		expect(c, 1, nil, "", plan("_p1", "SELECT 'again ' || $1")),
	)
	if err != nil {
		return err
	}
	for range 20 {
		err := expect(c, 1, []string{"again 1"}, "", execute("_p1", []byte("1")))
		if err != nil {
			return err
		}
	}
	return expect(c, 2, []string{"1"}, "", pgwire.Query(discardAll), command("SELECT 1"))
}
