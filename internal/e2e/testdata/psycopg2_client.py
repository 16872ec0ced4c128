"""Eight threads with psycopg2: each answer must be the one asked for. Prints ok."""
import io
import sys
import threading

import psycopg2

failures = []


def work(number, dsn):
    nonce = "thread %d" % number
    connection = psycopg2.connect(dsn)
    try:
        for i in range(30):
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT %s, %s, pg_backend_pid()", (nonce, i))
                first = cursor.fetchone()
                cursor.execute("SELECT %s, %s, pg_backend_pid()", (nonce, i))
                if first[:2] != (nonce, i) or cursor.fetchone() != first:
                    raise AssertionError("%s got %r" % (nonce, first))
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute("SELECT 1/0")
        except psycopg2.errors.DivisionByZero:
            pass
        with connection, connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE copied(a int, b text) ON COMMIT DROP")
            cursor.copy_from(io.StringIO("".join("%d\t%s\n" % (i, nonce) for i in range(2000))), "copied")
            cursor.execute("SELECT count(*), min(b), max(b) FROM copied")
            if cursor.fetchone() != (2000, nonce, nonce):
                raise AssertionError("COPY went wrong")
        with connection, connection.cursor("named") as cursor:
            cursor.itersize = 100
            cursor.execute("SELECT g FROM generate_series(1, 1000) g")
            if sum(row[0] for row in cursor) != 500500:
                raise AssertionError("server-side cursor went wrong")
    except Exception as error:
        failures.append("%s: %r" % (nonce, error))
    finally:
        connection.close()


threads = [threading.Thread(target=work, args=(n, sys.argv[1])) for n in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
if failures:
    sys.exit("\n".join(failures))
print("ok")
