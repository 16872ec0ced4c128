"""asyncpg, with its cache of named statements (the default) and without, and cursors."""
import asyncio
import io
import json
import sys
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

import asyncpg

import report
from report import check

CACHE = int(report.VARIANT.partition("=")[2])


async def connect():
    return await asyncpg.connect(report.URL, ssl=False, statement_cache_size=CACHE, command_timeout=30)


def with_connection(scenario):
    async def run():
        connection = await connect()
        try:
            await scenario(connection)
        finally:
            await connection.close()
    return run


async def console(_):
    async with asyncpg.create_pool(report.CONSOLE_URL, ssl=False, statement_cache_size=CACHE, min_size=1, max_size=2) as pool:
        for _ in range(3):
            async with pool.acquire() as connection, connection.transaction():
                for view in report.CONSOLE_VIEWS:
                    check(len(await connection.fetch("SHOW " + view)) > 0, True)
        try:
            await pool.fetch("SHOW NOTHING")
        except asyncpg.PostgresSyntaxError:
            pass
        else:
            raise AssertionError("no error")


async def prepare(connection):
    kept = await connection.prepare("SELECT $1::text || '/kept', pg_backend_pid()")
    pids = set()
    for i in range(60):
        for statement in "ab":
            got, pid = await connection.fetchrow("SELECT $1::text || '/" + statement + "', pg_backend_pid()", str(i))
            check(got, "%d/%s" % (i, statement))
            pids.add(pid)
        got, pid = await kept.fetchrow(str(i))
        check(got, "%d/kept" % i)
        pids.add(pid)
    await connection.reset()  # what asyncpg's pool sends when a connection comes back
    check(await connection.fetchval("SELECT $1::text", "after the reset"), "after the reset")
    report.backends(pids)


async def workers():
    async def work(number):
        connection = await connect()
        try:
            for i in range(20):
                nonce = "worker %d round %d" % (number, i)
                check(await connection.fetchval("SELECT $1::text", nonce), nonce)
                check(await connection.fetchval("SELECT %d + $1::int" % (number * 1000), i), number * 1000 + i)
        finally:
            await connection.close()
    await asyncio.gather(*(work(n) for n in range(8)))

    async with asyncpg.create_pool(report.URL, ssl=False, statement_cache_size=CACHE, min_size=1, max_size=2, command_timeout=30) as pool:
        async def borrow(i):
            check(await pool.fetchval("SELECT $1::int", i), i)
        await asyncio.gather(*(borrow(i) for i in range(40)))


async def must_fail(failure, awaitable):
    try:
        await awaitable
    except failure:
        return
    raise AssertionError("no " + failure.__name__)


async def error(connection):
    for i in range(5):
        await must_fail(asyncpg.DivisionByZeroError, connection.fetchval("SELECT 1 / $1::int", 0))
        await must_fail(asyncpg.UndefinedTableError, connection.fetchval("SELECT $1::int FROM no_such_table", i))
        check(await connection.fetchval("SELECT $1::int", i), i)
    try:
        async with connection.transaction():
            await must_fail(asyncpg.DivisionByZeroError, connection.fetchval("SELECT 1 / $1::int", 0))
            await must_fail(asyncpg.InFailedSQLTransactionError, connection.fetchval("SELECT $1::int", 1))
            raise ZeroDivisionError
    except ZeroDivisionError:
        pass
    check(await connection.fetchval("SELECT $1::int", 7), 7)


async def transaction(connection):
    for want in (0, 5):
        block = connection.transaction()
        await block.start()
        pid = await connection.fetchval("SELECT pg_backend_pid()")
        for i in range(1, 6):
            await connection.execute("INSERT INTO items VALUES ($1, $2)", i, "row")
            check(await connection.fetchval("SELECT pg_backend_pid()"), pid)
        try:
            async with connection.transaction():
                await connection.execute("INSERT INTO items VALUES ($1, $2)", 1, "again")
        except asyncpg.UniqueViolationError:
            pass
        await (block.commit() if want else block.rollback())
        check(await connection.fetchval("SELECT count(*) FROM items WHERE id BETWEEN $1 AND $2", 1, 99), want)


async def copy(connection):
    rows = [(1000 + i, "copied\t%d" % i) for i in range(2000)]
    await connection.copy_records_to_table("items", records=rows)
    out = io.BytesIO()
    await connection.copy_from_query("SELECT body FROM items WHERE id >= $1 ORDER BY id", 1000, output=out)
    check(out.getvalue().decode().splitlines(), ["copied\\t%d" % i for i in range(2000)])
    await must_fail(asyncpg.UniqueViolationError, connection.copy_records_to_table("items", records=rows))
    check(await connection.fetchval("SELECT count(*) FROM items WHERE id >= $1", 1000), 2000)


async def cancel(connection):
    for _ in range(3):
        await must_fail(TimeoutError if sys.version_info >= (3, 11) else asyncio.TimeoutError,
                        connection.fetchval("SELECT pg_sleep($1)", 30, timeout=0.2))
        check(await connection.fetchval("SELECT $1::int", 1), 1)
    query = asyncio.ensure_future(connection.fetchval("SELECT pg_sleep($1)", 30))
    await asyncio.sleep(0.1)
    query.cancel()
    await must_fail(asyncio.CancelledError, query)
    check(await connection.fetchval("SELECT $1::int", 1), 1)


async def types(connection):
    for sql_type, value in (
        ("int8", -2**63), ("float8", 0.1), ("bool", True), ("text", "grün 漢字 🐘"), ("bytea", b"\x00\x01\xff\\"),
        ("numeric", Decimal("12345678901234567890.000000001")), ("uuid", UUID("6f8a1f5e-0000-4000-8000-0123456789ab")),
        ("timestamptz", datetime(2024, 2, 29, 23, 59, 58, 123456, timezone.utc)), ("int[]", [1, 2, None]),
        ("text[]", ["a", 'b"\\,']), ("text", None),
    ):
        check(await connection.fetchval("SELECT $1::" + sql_type, value), value)
    await connection.set_type_codec("jsonb", encoder=json.dumps, decoder=json.loads, schema="pg_catalog")
    check(await connection.fetchval("SELECT $1::jsonb", {"k": [1, "ü"]}), {"k": [1, "ü"]})
    # A type of the database's own is looked up in the catalogue, with several statements and settings of its own.
    await connection.execute("CREATE TYPE pair AS (x int, y text[])")
    check(tuple(await connection.fetchval("SELECT $1::pair", (1, ["a", "b"]))), (1, ["a", "b"]))
    await connection.execute("DROP TYPE pair")


async def listen(connection):
    received = asyncio.Queue()
    await connection.add_listener("news", lambda _, pid, channel, payload: received.put_nowait((channel, payload)))
    other = await connect()
    for i in range(3):
        await other.execute("SELECT pg_notify($1, $2)", "news", "item %d" % i)
        check(await asyncio.wait_for(received.get(), 20), ("news", "item %d" % i))
        check(await connection.fetchval("SELECT $1::int", i), i)
    await other.close()
    await connection.reset()  # UNLISTEN *


async def setting(connection):
    other = await connect()
    await connection.execute("SET search_path = tenant")
    await connection.execute("SET TimeZone = 'Asia/Tokyo'")
    for _ in range(20):
        check(await connection.fetchval("SELECT name FROM place"), "tenant")
        check(await connection.fetchval("SELECT current_setting($1)", "TimeZone"), "Asia/Tokyo")
        check(connection.get_settings().TimeZone, "Asia/Tokyo")
        check(await other.fetchval("SELECT name FROM place"), "public")
        check(await other.fetchval("SELECT current_setting($1)", "TimeZone"), "UTC")
    await other.close()


async def cursor(connection):
    for _ in range(5):
        async with connection.transaction():
            total = 0
            async for row in connection.cursor("SELECT g FROM generate_series(1, $1::int) g", 500, prefetch=50):
                total += row[0]
            check(total, 125250)
            rows = await connection.cursor("SELECT g FROM generate_series(1, 100) g")
            await rows.forward(50)
            check((await rows.fetchrow())[0], 51)


async def main():
    report.version(asyncpg.__version__)
    return await report.run_async([("workers", workers) if f is workers else (f.__name__, with_connection(f)) for f in (
        prepare, workers, error, transaction, copy, cancel, types, listen, setting, cursor, console)])


sys.exit(asyncio.run(main()))
