"""psycopg2: the simple protocol, with prepared statements in SQL, named cursors and COPY."""
import io
import select
import threading
from datetime import datetime, timezone
from decimal import Decimal

import psycopg2
import psycopg2.extensions
import psycopg2.extras
from psycopg2 import errors

import report
from report import check


def connect(autocommit=True):
    connection = psycopg2.connect(report.URL, connect_timeout=20)
    connection.autocommit = autocommit
    return connection


def rows(connection, sql, *args):
    with connection.cursor() as c:
        c.execute(sql, args or None)
        return c.fetchall()


def run(connection, sql, *args):
    with connection.cursor() as c:
        c.execute(sql, args or None)


def with_connection(scenario):
    def body():
        connection = connect()
        try:
            scenario(connection)
        finally:
            connection.close()
    return body


def prepare(connection):
    pids = set()
    for i in range(60):
        got, pid = rows(connection, "SELECT %s || '/simple', pg_backend_pid()", str(i))[0]
        check(got, "%d/simple" % i)
        pids.add(pid)
    report.backends(pids)
    run(connection, "PREPARE plan (text) AS SELECT $1 || '/plan'")
    for i in range(20):
        check(rows(connection, "EXECUTE plan(%s)", str(i)), [("%d/plan" % i,)])
    run(connection, "DEALLOCATE plan")


def workers():
    failures = []

    def work(number):
        try:
            connection = connect()
            for i in range(20):
                nonce = "worker %d round %d" % (number, i)
                check(rows(connection, "SELECT %s, %s", nonce, i), [(nonce, i)])
            connection.close()
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def must_fail(failure, connection, sql, *args):
    try:
        run(connection, sql, *args)
    except failure:
        return
    raise AssertionError("no error for " + sql)


def error(connection):
    for i in range(5):
        must_fail(errors.DivisionByZero, connection, "SELECT 1 / %s", 0)
        must_fail(errors.UndefinedTable, connection, "SELECT * FROM no_such_table")
        check(rows(connection, "SELECT %s", i), [(i,)])
    block = connect(autocommit=False)
    must_fail(errors.DivisionByZero, block, "SELECT 1 / %s", 0)
    must_fail(errors.InFailedSqlTransaction, block, "SELECT 1")
    block.rollback()
    check(rows(block, "SELECT 7"), [(7,)])
    block.close()


def transaction(_):
    block = connect(autocommit=False)
    for want in (0, 5):
        pid = rows(block, "SELECT pg_backend_pid()")
        for i in range(1, 6):
            run(block, "INSERT INTO items VALUES (%s, 'row')", i)
            check(rows(block, "SELECT pg_backend_pid()"), pid)
        run(block, "SAVEPOINT inner_block")
        must_fail(errors.UniqueViolation, block, "INSERT INTO items VALUES (1, 'again')")
        run(block, "ROLLBACK TO inner_block")
        (block.commit if want else block.rollback)()
        check(rows(block, "SELECT count(*) FROM items WHERE id BETWEEN 1 AND 99"), [(want,)])
        block.commit()
    block.close()


def copy(connection):
    text = "".join("%d\tcopied %d\n" % (1000 + i, i) for i in range(2000))
    with connection.cursor() as c:
        c.copy_expert("COPY items (id, body) FROM STDIN", io.StringIO(text))
        out = io.StringIO()
        c.copy_expert("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT", out)
        check(out.getvalue(), text)
        try:
            c.copy_expert("COPY items (id, body) FROM STDIN", io.StringIO(text))
        except errors.UniqueViolation:
            pass
        else:
            raise AssertionError("no unique violation in COPY")
    check(rows(connection, "SELECT count(*) FROM items WHERE id >= 1000"), [(2000,)])


def cancel(connection):
    ended = threading.Event()

    def canceller():
        while not ended.wait(0.1):  # until it hits
            connection.cancel()

    thread = threading.Thread(target=canceller)
    thread.start()
    try:
        must_fail(errors.QueryCanceled, connection, "SELECT pg_sleep(30)")
    finally:
        ended.set()
        thread.join()
    check(rows(connection, "SELECT 1"), [(1,)])


def types(connection):
    when = datetime(2024, 2, 29, 23, 59, 58, 123456, timezone.utc)
    psycopg2.extras.register_uuid()
    for sql_type, value in (
        ("int8", 2**63 - 1), ("float8", 0.1), ("bool", True), ("text", "grün 漢字 🐘"), ("numeric", Decimal("12345678901234567890.000000001")),
        ("timestamptz", when), ("int[]", [1, 2, None]), ("text[]", ["a", 'b"\\,']), ("text", None),
    ):
        check(rows(connection, "SELECT %s::" + sql_type, value), [(value,)])
    check(bytes(rows(connection, "SELECT %s::bytea", b"\x00\x01\xff\\")[0][0]), b"\x00\x01\xff\\")
    check(rows(connection, "SELECT %s::jsonb", psycopg2.extras.Json({"k": [1, "ü"]})), [({"k": [1, "ü"]},)])


def listen(connection):
    run(connection, "LISTEN news")
    other = connect()
    for i in range(3):
        run(other, "SELECT pg_notify('news', %s)", "item %d" % i)
        while not connection.notifies:
            check(select.select([connection], [], [], 20)[0], [connection])
            connection.poll()
        notify = connection.notifies.pop(0)
        check((notify.channel, notify.payload), ("news", "item %d" % i))
        check(rows(connection, "SELECT %s", i), [(i,)])
    other.close()
    run(connection, "UNLISTEN news")


def setting(connection):
    other = connect()
    run(connection, "SET search_path = tenant; SET TimeZone = 'Asia/Tokyo'")
    for _ in range(20):
        check(rows(connection, "SELECT name, current_setting('TimeZone') FROM place"), [("tenant", "Asia/Tokyo")])
        check(connection.get_parameter_status("TimeZone"), "Asia/Tokyo")
        check(rows(other, "SELECT name, current_setting('TimeZone') FROM place"), [("public", "UTC")])
    other.close()
    connection.reset()  # RESET ALL and SET SESSION AUTHORIZATION DEFAULT
    check(rows(connection, "SELECT name, current_setting('TimeZone') FROM place"), [("public", "UTC")])


def cursor(_):
    block = connect(autocommit=False)
    for _ in range(5):
        with block, block.cursor("named") as c:
            c.itersize = 50
            c.execute("SELECT g FROM generate_series(1, %s) g", (500,))
            check(sum(row[0] for row in c), 125250)
    block.close()


def console(_):
    connection = psycopg2.connect(report.CONSOLE_URL, connect_timeout=20)
    for _ in range(3):
        for view in report.CONSOLE_VIEWS:
            check(len(rows(connection, "SHOW " + view)) > 0, True)
        connection.commit()
    try:
        rows(connection, "SHOW NOTHING")
    except errors.SyntaxError:
        connection.reset()
    else:
        raise AssertionError("no error")
    check(len(rows(connection, "SHOW VERSION")), 1)
    connection.close()


def main():
    report.version(psycopg2.__version__.split()[0])
    report.run([("workers", workers) if f is workers else (f.__name__, with_connection(f)) for f in (
        prepare, workers, error, transaction, copy, cancel, types, listen, setting, cursor, console)])


main()
