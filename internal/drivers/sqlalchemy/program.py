"""SQLAlchemy at its defaults: its core and its ORM over psycopg (its pool rolls back what comes back), or over asyncpg."""
import asyncio
import threading
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy import exc
from sqlalchemy.dialects import postgresql as pg
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import report
from report import check

BODY = report.URL.partition("://")[2]


class Base(DeclarativeBase):
    pass


class Item(Base):
    __tablename__ = "items"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    body: Mapped[str | None]


def engine(**more):
    """The engine as a program uses it: a plain one, or the synchronous face of the asynchronous one."""
    options = {"pool_size": 1, "max_overflow": 0, **more}
    if report.VARIANT == "asyncpg":
        return create_async_engine("postgresql+asyncpg://" + BODY, **options)
    return sa.create_engine("postgresql+psycopg://" + BODY, **options)


def perform(target, work, session=False, **connection_options):
    """Runs work(connection) or work(session) in one transaction of the engine; returns its result."""
    if report.VARIANT != "asyncpg":
        if session:
            with Session(target) as s, s.begin():
                return work(s)
        with target.connect() as c:
            c = c.execution_options(**connection_options)
            with c.begin():
                return work(c)

    async def both():
        if session:
            async with AsyncSession(target) as s, s.begin():
                return await s.run_sync(work)
        async with target.connect() as c:
            await c.execution_options(**connection_options)
            async with c.begin():
                return await c.run_sync(work)

    return LOOP.run_until_complete(both())


def dispose(target):
    if report.VARIANT == "asyncpg":
        LOOP.run_until_complete(target.dispose())
    else:
        target.dispose()


def with_engine(scenario):
    def run():
        target = engine()
        try:
            scenario(target)
        finally:
            dispose(target)
    return run


def one(connection, text, **values):
    return connection.execute(sa.text(text), values).scalar_one()


def sqlstate(error):
    return getattr(error.orig, "sqlstate", None)


def must_fail(state, work):
    try:
        work()
    except exc.DBAPIError as error:
        check(sqlstate(error), state)
        return
    raise AssertionError("want SQLSTATE %s, got no error" % state)


def prepare(target):
    pids = set()
    for i in range(60):
        def ask(c):
            row = c.execute(sa.text("SELECT CAST(:n AS text) || '/a', pg_backend_pid()"), {"n": str(i)}).one()
            check(row[0], "%d/a" % i)
            check(one(c, "SELECT CAST(:n AS int) + 1", n=i), i + 1)
            pids.add(row[1])
        perform(target, ask)
    report.backends(pids)


def workers():
    if report.VARIANT == "asyncpg":
        async def work(target, n):
            for i in range(20):
                async with target.connect() as c:
                    got = (await c.execute(sa.text("SELECT CAST(:v AS text)"), {"v": "%d %d" % (n, i)})).scalar_one()
                    check(got, "%d %d" % (n, i))

        async def everybody():
            target = engine(pool_size=8)
            await asyncio.gather(*(work(target, n) for n in range(8)))
            await target.dispose()
        LOOP.run_until_complete(everybody())
        return

    failures = []
    target = engine(pool_size=8)

    def work(n):
        try:
            for i in range(20):
                perform(target, lambda c: check(one(c, "SELECT CAST(:v AS text)", v="%d %d" % (n, i)), "%d %d" % (n, i)))
        except Exception as error:
            failures.append(error)
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    target.dispose()
    if failures:
        raise failures[0]


def error(target):
    for i in range(5):
        must_fail("22012", lambda: perform(target, lambda c: one(c, "SELECT 1 / CAST(:n AS int)", n=0)))
        must_fail("42P01", lambda: perform(target, lambda c: one(c, "SELECT CAST(:n AS int) FROM no_such_table", n=0)))
        perform(target, lambda c: check(one(c, "SELECT CAST(:n AS int)", n=i), i))


def transaction(target):
    class GivenUp(Exception):
        pass

    for want in (0, 5):
        def work(session):
            pid = session.scalar(sa.text("SELECT pg_backend_pid()"))
            session.add_all([Item(id=i, body="row") for i in range(1, 6)])
            session.flush()
            check(session.scalar(sa.text("SELECT pg_backend_pid()")), pid)
            try:
                with session.begin_nested():
                    session.execute(sa.insert(Item).values(id=1, body="again"))
            except exc.IntegrityError as failure:
                check(sqlstate(failure), "23505")
            else:
                raise AssertionError("no unique violation")
            if want == 0:
                raise GivenUp
        try:
            perform(target, work, session=True)
        except GivenUp:
            pass
        perform(target, lambda s: check(len(s.scalars(sa.select(Item).where(Item.id.between(1, 99))).all()), want), session=True)
    # Many rows in one statement, with the values that the database returns.
    many = [{"id": 100 + i, "body": "many"} for i in range(500)]
    rows = perform(target, lambda s: s.scalars(sa.insert(Item).returning(Item.id), many).all(), session=True)
    check(sorted(rows), [100 + i for i in range(500)])


def copy(target):
    """COPY is the driver's: through the connection that SQLAlchemy lends."""
    records = [(1000 + i, "copied %d" % i) for i in range(2000)]
    if report.VARIANT == "asyncpg":
        async def work():
            async with target.begin() as c:
                raw = (await c.get_raw_connection()).driver_connection
                await raw.copy_records_to_table("items", records=records)
        LOOP.run_until_complete(work())
    else:
        with target.begin() as c, c.connection.cursor() as cursor:
            with cursor.copy("COPY items (id, body) FROM STDIN") as rows:
                for record in records:
                    rows.write_row(record)
            with cursor.copy("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT") as rows:
                rows.set_types(["int4", "text"])
                check(list(rows.rows()), records)
    perform(target, lambda c: check(one(c, "SELECT count(*) FROM items WHERE id >= :n", n=1000), 2000))


def cancel(target):
    """Cancelling is the driver's as well."""
    if report.VARIANT == "asyncpg":
        async def late():
            async with target.connect() as c:
                await c.execute(sa.text("SELECT pg_sleep(30)"))

        async def work():
            try:
                await asyncio.wait_for(late(), 0.5)
            except asyncio.TimeoutError:
                return
            raise AssertionError("no time-out")
        LOOP.run_until_complete(work())
    else:
        ended = threading.Event()
        with target.connect() as c:
            driver = c.connection.driver_connection

            def canceller():
                while not ended.wait(0.1):  # until it hits
                    driver.cancel_safe(timeout=10)
            thread = threading.Thread(target=canceller)
            thread.start()
            try:
                must_fail("57014", lambda: one(c, "SELECT pg_sleep(:n)", n=30))
            finally:
                ended.set()
                thread.join()
    perform(target, lambda c: check(one(c, "SELECT CAST(:n AS int)", n=1), 1))


def types(target):
    def work(c):
        for kind, value in (
            (sa.BigInteger(), -2**63), (sa.Double(), 0.1), (sa.Boolean(), True), (sa.Text(), "grün 漢字 🐘"),
            (sa.LargeBinary(), b"\x00\x01\xff\\"), (sa.Numeric(38, 9), Decimal("12345678901234567890.000000001")),
            (sa.Uuid(), UUID("6f8a1f5e-0000-4000-8000-0123456789ab")), (sa.DateTime(timezone=True), datetime(2024, 2, 29, 23, 59, 58, 123456, timezone.utc)),
            (pg.JSONB(), {"k": [1, "ü"]}), (pg.ARRAY(sa.Text()), ["a", 'b"\\,']), (sa.Text(), None),
        ):
            check(c.execute(sa.select(sa.cast(sa.literal(value, kind), kind))).scalar_one(), value)
    perform(target, work)
    # Reflection asks the catalogue with large statements of its own.
    names = perform(target, lambda c: [column["name"] for column in sa.inspect(c).get_columns("items")])
    check(names, ["id", "body"])


def setting(target):
    """Set by each new connection of an engine, as applications do; in a transaction that ends well."""
    other = engine()
    sync = target.sync_engine if report.VARIANT == "asyncpg" else target

    @sa.event.listens_for(sync, "connect")
    def on_connect(connection, _):
        cursor = connection.cursor()
        cursor.execute("SET search_path = tenant")
        cursor.execute("SET TimeZone = 'Asia/Tokyo'")
        cursor.close()
        connection.commit()
    for _ in range(20):
        for which, name, zone in ((target, "tenant", "Asia/Tokyo"), (other, "public", "UTC")):
            perform(which, lambda c: check(tuple(c.execute(sa.text("SELECT name, current_setting(:s) FROM place"), {"s": "TimeZone"}).one()), (name, zone)))
    perform(target, lambda c: check(one(c, "SHOW transaction_isolation"), "serializable"), isolation_level="SERIALIZABLE")
    perform(target, lambda c: check(one(c, "SHOW transaction_isolation"), "read committed"))
    dispose(other)


def stream(target):
    for _ in range(3):
        if report.VARIANT == "asyncpg":
            async def work():
                async with target.connect() as c:
                    rows = await c.stream(sa.text("SELECT g FROM generate_series(1, 500) g"))
                    return sum([row[0] async for row in rows])
            total = LOOP.run_until_complete(work())
        else:
            with target.connect() as c:
                rows = c.execution_options(yield_per=50).execute(sa.text("SELECT g FROM generate_series(1, 500) g"))
                total = sum(row[0] for row in rows)
        check(total, 125250)


LOOP = asyncio.new_event_loop()
report.version(sa.__version__)
report.run([("workers", workers) if f is workers else (f.__name__, with_engine(f)) for f in (
    prepare, workers, error, transaction, copy, cancel, types, setting, stream)])
