"""The example of the overload guide, seen by psycopg2: thirteen sessions of one application, eight may run and four wait.

Arguments: the pooler's DSN, PostgreSQL's own DSN, the number of event loops. Prints ok, or slow when the machine kept this
program from acting within the time-out of 250 ms, so that there was nothing to see.
"""
import sys
import threading
import time

import psycopg2

pooler, direct, loops = sys.argv[1], sys.argv[2], int(sys.argv[3])
TIMEOUT = 0.25
GATE = 77001  # class of the advisory locks that hold a query inside PostgreSQL


class TooSlow(Exception):
    pass


class Query(threading.Thread):
    """A query of one session, under way."""

    def __init__(self, connection, sql):
        super().__init__()
        self.connection, self.sql = connection, sql
        self.answer = self.error = None
        self.start()

    def run(self):
        try:
            with self.connection.cursor() as cursor:
                cursor.execute(self.sql)
                self.answer = cursor.fetchone()
        except psycopg2.Error as error:
            self.error = error


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def connect(dsn, name):
    connection = psycopg2.connect(dsn, application_name=name)
    connection.autocommit = True
    return connection


gate = connect(direct, "pgtest")


def ask(sql):
    with gate.cursor() as cursor:
        cursor.execute(sql)
        return [row[0] for row in cursor.fetchall()]


def inside():
    return ask("SELECT DISTINCT objid::int FROM pg_locks WHERE locktype = 'advisory' AND classid = %d AND NOT granted ORDER BY 1" % GATE)


def held(key):
    return "SELECT pg_advisory_xact_lock(%d, %d)" % (GATE, key)


def until(deadline, condition):
    while not condition():
        if time.monotonic() > deadline:
            raise TooSlow
        time.sleep(0.002)


def by_loop(connections):
    """Neighbours on different loops; the process number that a session is told names its loop in bits 16 to 23."""
    lists = [[] for _ in range(loops)]
    for connection in connections:
        lists[connection.info.backend_pid >> 16 & 0xFF].append(connection)
    check(min(map(len, lists)) >= 13 // loops + 1, "sessions by loop: %s" % [len(l) for l in lists])
    return [lists[i % loops][i // loops] for i in range(13)]


def play(sessions):
    queries = [Query(c, held(i)) for i, c in enumerate(sessions[:8])]
    until(time.monotonic() + 20, lambda: inside() == list(range(8)))
    first = time.monotonic()
    for i, c in enumerate(sessions[8:12]):
        queries.append(Query(c, held(8 + i)))
        time.sleep(0.02)  # the arrivals of the example are 20 ms apart
    thirteenth = Query(sessions[12], "SELECT 'thirteenth'")
    thirteenth.join(TIMEOUT)
    if time.monotonic() > first + TIMEOUT - 0.03:
        raise TooSlow
    check(isinstance(thirteenth.error, psycopg2.OperationalError), "the thirteenth got %r" % thirteenth.error)
    check(thirteenth.error.pgcode == "53300", "SQLSTATE %s" % thirteenth.error.pgcode)
    check("route queue full" in str(thirteenth.error), str(thirteenth.error))
    check(thirteenth.error.diag.message_hint.startswith("retry after "), "hint %r" % thirteenth.error.diag.message_hint)
    check(sessions[12].closed == 0, "the refused session was closed")
    check(all(q.is_alive() for q in queries), "a query ended too early")

    ask("SELECT pg_advisory_unlock(%d, 3)" % GATE)  # one of the eight ends in time
    queries[3].join(20)
    check(queries[3].error is None, repr(queries[3].error))
    until(first + TIMEOUT - 0.01, lambda: inside() == [0, 1, 2, 4, 5, 6, 7, 8])  # the oldest waiter runs

    for query in queries[9:12]:  # nobody else ends
        query.join(20)
        check(query.error is not None and query.error.pgcode == "53300", "a waiter got %r, %r" % (query.answer, query.error))
        check("checkout timed out" in str(query.error), str(query.error))
    check(time.monotonic() - first >= TIMEOUT, "the waiters failed early")
    for key in (0, 1, 2, 4, 5, 6, 7, 8):
        ask("SELECT pg_advisory_unlock(%d, %d)" % (GATE, key))
    for query in queries[:9]:
        query.join(20)
        check(query.error is None and query.answer is not None, "got %r" % query.error)
    for i, connection in enumerate(sessions):  # every session goes on
        last = Query(connection, "SELECT %d" % i)
        last.join(20)
        check(last.answer == (i,), "session %d: %r" % (i, last.error))


ask("SELECT pg_advisory_lock(%d, i) FROM generate_series(0, 11) i" % GATE)
try:
    play(by_loop([connect(pooler, "api") for _ in range(26)]))
    print("ok")
except TooSlow:
    print("slow")
    gate.close()  # whatever is held, ends
