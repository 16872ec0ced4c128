"""Django at its defaults on psycopg: its ORM, atomic blocks, server-side cursors, and connections that stay open."""
import threading
from datetime import datetime, timezone
from decimal import Decimal
from uuid import UUID

import django
from django.conf import settings

import report
from report import check


def database(**more):
    return {
        "ENGINE": "django.db.backends.postgresql", "HOST": report.HOST, "PORT": report.PORT, "USER": "postgres", "NAME": "postgres",
        "CONN_MAX_AGE": None, **more,
    }


TENANT = "-c search_path=tenant -c timezone=Asia/Tokyo"
settings.configure(
    DATABASES={
        "default": database(),
        "binary": database(OPTIONS={"server_side_binding": True}),
        "tenant": database(OPTIONS={"options": TENANT}, TIME_ZONE="Asia/Tokyo"),
    },
    USE_TZ=True, TIME_ZONE="UTC", INSTALLED_APPS=["django.contrib.contenttypes"], DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
)
django.setup()

from django.contrib.postgres.fields import ArrayField  # noqa: E402 - needs the settings
from django.db import DataError, IntegrityError, ProgrammingError, connection, connections, models, transaction  # noqa: E402
from django.db.utils import OperationalError  # noqa: E402


class Item(models.Model):
    id = models.IntegerField(primary_key=True)
    body = models.TextField(null=True)

    class Meta:
        app_label, db_table, managed = "drivers", "items", False


class Everything(models.Model):
    """One field of each kind."""
    big = models.BigIntegerField()
    number = models.FloatField()
    yes = models.BooleanField()
    text = models.TextField()
    octets = models.BinaryField()
    exact = models.DecimalField(max_digits=38, decimal_places=9)
    name = models.UUIDField()
    moment = models.DateTimeField()
    tree = models.JSONField()
    words = ArrayField(models.TextField())
    nothing = models.TextField(null=True)

    class Meta:
        app_label, db_table = "drivers", "everything"


def rows(sql, *args, using="default"):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, args)
        return cursor.fetchall()


def must_fail(failure, work):
    try:
        work()
    except failure:
        return
    raise AssertionError("no " + failure.__name__)


def prepare():
    for using in ("default", "binary"):
        pids = set()
        for i in range(60):
            got, pid = rows("SELECT %s::text || '/a', pg_backend_pid()", str(i), using=using)[0]
            check(got, "%d/a" % i)
            pids.add(pid)
    report.backends(pids)


def workers():
    failures = []

    def work(n):
        try:
            for i in range(20):
                check(rows("SELECT %s::text", "%d %d" % (n, i), using="binary"), [("%d %d" % (n, i),)])
        except Exception as error:
            failures.append(error)
        finally:
            connections.close_all()
    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def error():
    for i in range(5):
        must_fail(DataError, lambda: rows("SELECT 1 / %s::int", 0))
        must_fail(ProgrammingError, lambda: rows("SELECT * FROM no_such_table"))
        check(rows("SELECT %s::int", i), [(i,)])

    def block():
        with transaction.atomic():
            must_fail(DataError, lambda: rows("SELECT 1 / %s::int", 0))
            rows("SELECT 1")
    must_fail(Exception, block)
    check(rows("SELECT 7"), [(7,)])


def atomic():
    for want in (0, 5):
        with transaction.atomic():
            pid = rows("SELECT pg_backend_pid()")
            Item.objects.bulk_create([Item(id=i, body="row") for i in range(1, 6)])
            check(rows("SELECT pg_backend_pid()"), pid)
            try:
                with transaction.atomic():
                    Item.objects.create(id=1, body="again")
            except IntegrityError:
                pass
            else:
                raise AssertionError("no unique violation")
            check(Item.objects.select_for_update().filter(id__range=(1, 99)).count(), 5)
            transaction.set_rollback(want == 0)
        check(Item.objects.filter(id__range=(1, 99)).count(), want)
    check(Item.objects.update_or_create(id=1, defaults={"body": "new"})[1], False)
    check(Item.objects.get(pk=1).body, "new")


def copy():
    """COPY is psycopg's, through Django's cursor."""
    records = [(1000 + i, "copied %d" % i) for i in range(2000)]
    with connection.cursor() as cursor:
        with cursor.copy("COPY items (id, body) FROM STDIN") as stream:
            for record in records:
                stream.write_row(record)
        with cursor.copy("COPY (SELECT id, body FROM items WHERE id >= 1000 ORDER BY id) TO STDOUT") as stream:
            stream.set_types(["int4", "text"])
            check(list(stream.rows()), records)
    check(Item.objects.filter(id__gte=1000).count(), 2000)


def cancel():
    """Cancelling is psycopg's as well."""
    connection.ensure_connection()
    driver, ended = connection.connection, threading.Event()

    def canceller():
        while not ended.wait(0.1):  # until it hits
            driver.cancel_safe(timeout=10)
    thread = threading.Thread(target=canceller)
    thread.start()
    try:
        must_fail(OperationalError, lambda: rows("SELECT pg_sleep(%s)", 30))
    finally:
        ended.set()
        thread.join()
    check(rows("SELECT 1"), [(1,)])


def types():
    values = {
        "big": -2**63, "number": 0.1, "yes": True, "text": "grün 漢字 🐘", "octets": b"\x00\x01\xff\\",
        "exact": Decimal("12345678901234567890.000000001"), "name": UUID("6f8a1f5e-0000-4000-8000-0123456789ab"),
        "moment": datetime(2024, 2, 29, 23, 59, 58, 123456, timezone.utc), "tree": {"k": [1, "ü"]}, "words": ["a", 'b"\\,'], "nothing": None,
    }
    with connection.schema_editor() as editor:
        editor.create_model(Everything)
    try:
        key = Everything.objects.create(**values).pk
        for using in ("default", "binary"):
            found = Everything.objects.using(using).get(pk=key)
            check({name: bytes(v) if isinstance(v := getattr(found, name), memoryview) else v for name in values}, values)
        check(Everything.objects.filter(tree__k__1="ü", words__contains=["a"]).count(), 1)
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(Everything)


def setting():
    for _ in range(20):
        check(rows("SELECT name, current_setting('TimeZone') FROM place", using="tenant"), [("tenant", "Asia/Tokyo")])
        check(rows("SELECT name, current_setting('TimeZone') FROM place"), [("public", "UTC")])


def iterator():
    """Server-side cursors: outside a block Django holds them beyond it, and closes them at their end."""
    Item.objects.bulk_create([Item(id=10_000 + i, body="row") for i in range(500)])
    for _ in range(3):
        check(sum(1 for _ in Item.objects.filter(id__gte=10_000).iterator(chunk_size=50)), 500)
        with transaction.atomic():
            check(sum(1 for _ in Item.objects.filter(id__gte=10_000).iterator(chunk_size=50)), 500)


def main():
    report.version(django.get_version())
    names = {atomic: "transaction"}

    def closing(scenario):
        def run():
            try:
                scenario()
            finally:
                connections.close_all()
        return run
    report.run([(names.get(f, f.__name__), closing(f)) for f in (
        prepare, workers, error, atomic, copy, cancel, types, setting, iterator)])


main()
