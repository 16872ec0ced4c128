"""Eight tasks with asyncpg at its defaults: each answer must be the one asked for. Prints ok."""
import asyncio
import sys

import asyncpg


async def work(number, dsn):
    nonce = "task %d" % number
    connection = await asyncpg.connect(dsn)
    try:
        for i in range(30):
            row = await connection.fetchrow("SELECT $1::text, $2::int", nonce, i)
            assert tuple(row) == (nonce, i), (nonce, row)
        async with connection.transaction():
            pid = await connection.fetchval("SELECT pg_backend_pid()")
            for _ in range(5):
                assert pid == await connection.fetchval("SELECT pg_backend_pid()")
        try:
            await connection.fetchval("SELECT 1 / $1::int", 0)
            raise AssertionError("no error")
        except asyncpg.DivisionByZeroError:
            pass
        async with connection.transaction():
            total = 0
            async for row in connection.cursor("SELECT g FROM generate_series(1, 500) g", prefetch=50):
                total += row[0]
            assert total == 125250
            await connection.execute("CREATE TEMP TABLE copied(a int, b text) ON COMMIT DROP")
            await connection.copy_records_to_table("copied", records=[(i, nonce) for i in range(2000)])
            assert await connection.fetchval("SELECT count(*) FROM copied WHERE b = $1", nonce) == 2000
        try:
            await connection.fetchval("SELECT pg_sleep(60)", timeout=0.2)  # cancels
            raise AssertionError("no time-out")
        except (asyncio.TimeoutError, TimeoutError):
            pass
        assert await connection.fetchval("SELECT $1::text", nonce) == nonce
    finally:
        await connection.close()


async def main():
    await asyncio.gather(*(work(n, sys.argv[1]) for n in range(8)))
    print("ok")


asyncio.run(main())
