"""psycopg 3, with prepared statements after five uses (the default) or at once, pipelines and server-side cursors."""
import threading
import time
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

import psycopg
from psycopg import errors
from psycopg.types.json import Jsonb

import report
from report import check

THRESHOLD = int(report.VARIANT.partition("=")[2])


def connect():
    return psycopg.connect(report.URL, autocommit=True, prepare_threshold=THRESHOLD, connect_timeout=20)


def console(_):
    with psycopg.connect(report.CONSOLE_URL, prepare_threshold=THRESHOLD) as connection:
        for _ in range(7):
            with connection.transaction():
                for view in report.CONSOLE_VIEWS:
                    check(len(connection.execute("SHOW " + view).fetchall()) > 0, True)
        try:
            connection.execute("SHOW NOTHING")
        except errors.SyntaxError:
            connection.rollback()
        else:
            raise AssertionError("no error")


def one(connection, sql, *args):
    return connection.execute(sql, args).fetchone()[0]


def with_connection(scenario):
    def run():
        with connect() as connection:
            scenario(connection)
    return run


def prepare(connection):
    pids = set()
    for i in range(60):
        for statement in "ab":
            got, pid = connection.execute("SELECT %s::text || '/" + statement + "', pg_backend_pid()", (str(i),)).fetchone()
            check(got, "%d/%s" % (i, statement))
            pids.add(pid)
        check(connection.execute("SELECT %s::int + 1", (i,), prepare=True).fetchone(), (i + 1,))
    report.backends(pids)


def workers():
    failures = []

    def work(number):
        try:
            with connect() as connection:
                for i in range(20):
                    nonce = "worker %d round %d" % (number, i)
                    check(one(connection, "SELECT %s::text", nonce), nonce)
                    check(one(connection, "SELECT %d + %%s::int" % (number * 1000), i), number * 1000 + i)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def must_fail(failure, connection, sql, *args):
    try:
        connection.execute(sql, args)
    except failure:
        return
    raise AssertionError("no error for " + sql)


def error(connection):
    for i in range(8):
        must_fail(errors.DivisionByZero, connection, "SELECT 1 / %s::int", 0)
        must_fail(errors.UndefinedTable, connection, "SELECT %s::int FROM no_such_table", i)
        check(one(connection, "SELECT %s::int", i), i)
    try:
        with connection.transaction():
            must_fail(errors.DivisionByZero, connection, "SELECT 1 / %s::int", 0)
            connection.execute("SELECT %s::int", (1,))
    except errors.InFailedSqlTransaction:
        pass
    else:
        raise AssertionError("a failed block went on")
    check(one(connection, "SELECT %s::int", 7), 7)


def transaction(connection):
    for want in (0, 5):
        with connection.transaction(force_rollback=want == 0):
            pid = one(connection, "SELECT pg_backend_pid()")
            for i in range(1, 6):
                connection.execute("INSERT INTO items VALUES (%s, %s)", (i, "row"))
                check(one(connection, "SELECT pg_backend_pid()"), pid)
            try:
                with connection.transaction():
                    connection.execute("INSERT INTO items VALUES (%s, %s)", (1, "again"))
            except errors.UniqueViolation:
                pass
        check(one(connection, "SELECT count(*) FROM items WHERE id BETWEEN %s AND %s", 1, 99), want)


def copy(connection):
    with connection.cursor() as cursor:
        with cursor.copy("COPY items (id, body) FROM STDIN") as rows:
            for i in range(2000):
                rows.write_row((1000 + i, "copied\t%d" % i))
        with cursor.copy("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT (FORMAT binary)") as rows:
            rows.set_types(["int4", "text"])
            check(list(rows.rows()), [(1000 + i, "copied\t%d" % i) for i in range(2000)])
        try:
            with cursor.copy("COPY items (id, body) FROM STDIN") as rows:
                rows.write_row((1000, "twice"))
        except errors.UniqueViolation:
            pass
        else:
            raise AssertionError("no unique violation in COPY")
        try:
            with cursor.copy("COPY items (id, body) FROM STDIN") as rows:
                rows.write_row((5000, "given up"))
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    check(one(connection, "SELECT count(*) FROM items WHERE id >= %s", 1000), 2000)


def cancel(connection):
    ended = threading.Event()

    def canceller():
        while not ended.wait(0.1):  # until it hits
            connection.cancel_safe(timeout=10)

    thread = threading.Thread(target=canceller)
    thread.start()
    try:
        must_fail(errors.QueryCanceled, connection, "SELECT pg_sleep(%s)", 30)
    finally:
        ended.set()
        thread.join()
    check(one(connection, "SELECT %s::int", 1), 1)


def types(connection):
    for sql_type, value in (
        ("int8", -2**63), ("float8", 0.1), ("bool", True), ("text", "grün 漢字 🐘"), ("bytea", b"\x00\x01\xff\\"),
        ("numeric", Decimal("12345678901234567890.000000001")), ("uuid", UUID("6f8a1f5e-0000-4000-8000-0123456789ab")),
        ("timestamptz", datetime(2024, 2, 29, 23, 59, 58, 123456, timezone.utc)), ("int[]", [1, 2, None]),
        ("text[]", ["a", 'b"\\,']), ("text", None),
    ):
        for binary in (False, True):
            with connection.cursor(binary=binary) as cursor:
                check(cursor.execute("SELECT %s::" + sql_type, (value,)).fetchone()[0], value)
    check(one(connection, "SELECT %s::jsonb", Jsonb({"k": [1, "ü"]})), {"k": [1, "ü"]})


def listen(connection):
    connection.execute("LISTEN news")
    with connect() as other:
        for i in range(3):
            other.execute("SELECT pg_notify(%s, %s)", ("news", "item %d" % i))
            got = [(n.channel, n.payload) for n in connection.notifies(timeout=20, stop_after=1)]
            check(got, [("news", "item %d" % i)])
            check(one(connection, "SELECT %s::int", i), i)
    connection.execute("UNLISTEN news")


def setting(connection):
    with connect() as other:
        connection.execute("SET search_path = tenant")
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        for _ in range(20):
            check(one(connection, "SELECT name FROM place"), "tenant")
            check(one(connection, "SELECT current_setting(%s)", "TimeZone"), "Asia/Tokyo")
            check(connection.info.parameter_status("TimeZone"), "Asia/Tokyo")
            check(one(other, "SELECT name FROM place"), "public")
            check(one(other, "SELECT current_setting(%s)", "TimeZone"), "UTC")


def pipeline(connection):
    for r in range(10):
        with connection.pipeline() as p:
            cursors = [connection.execute("SELECT %s::int", (i,)) for i in range(20)]
            p.sync()
            cursors += [connection.execute("SELECT %s::text", (str(i),)) for i in range(20)]
            check([c.fetchone()[0] for c in cursors], list(range(20)) + [str(i) for i in range(20)])
        try:
            with connection.pipeline():
                with connection.transaction():
                    connection.execute("INSERT INTO items VALUES (%s, 'pipeline')", (500 + r,))
                    connection.execute("SELECT 1 / %s::int", (0,))
        except errors.DivisionByZero:
            pass
        else:
            raise AssertionError("no error in the pipeline")
        check(one(connection, "SELECT count(*) FROM items WHERE id = %s", 500 + r), 0)


def cursor(connection):
    for _ in range(5):
        with connection.transaction():
            with connection.cursor("named") as rows:
                rows.itersize = 50
                rows.execute("SELECT g FROM generate_series(1, %s) g", (500,))
                check(sum(row[0] for row in rows), 125250)
            with psycopg.ServerCursor(connection, "scrolling", scrollable=True) as rows:
                rows.execute("SELECT g FROM generate_series(1, 100) g")
                rows.scroll(50)
                check(rows.fetchone(), (51,))
    # Held beyond its transaction, it pins until it is closed.
    with connection.cursor("held", withhold=True) as rows:
        rows.execute("SELECT g FROM generate_series(1, 100) g")
        check([row[0] for row in rows.fetchmany(3)], [1, 2, 3])
        check(one(connection, "SELECT %s::int", 1), 1)
        check([row[0] for row in rows.fetchmany(3)], [4, 5, 6])


def main():
    report.version("%s, libpq %s" % (psycopg.__version__, ".".join(map(str, divmod(psycopg.pq.version(), 10000)))))
    report.run([("workers", workers) if f is workers else (f.__name__, with_connection(f)) for f in (
        prepare, workers, error, transaction, copy, cancel, types, listen, setting, pipeline, cursor, console)])


main()
