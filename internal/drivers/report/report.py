"""How the Python programs among the drivers tell their results; see the Go package of the same name."""
import os
import sys

HOST = os.environ["DRIVERS_HOST"]
PORT = int(os.environ["DRIVERS_PORT"])
URL = os.environ["DRIVERS_URL"]
CONSOLE_URL = URL.removesuffix("/postgres") + "/pg_kinetic"
CONSOLE_VIEWS = ("POOLS", "CLIENTS", "SERVERS", "LISTS", "BACKPRESSURE", "LIMITS")
VARIANT = sys.argv[1] if len(sys.argv) > 1 else ""

_status = 0


def version(text):
    print("version", text)


def backends(pids):
    print("backends", len(pids))


def check(got, want):
    if got != want:
        raise AssertionError("got %r, want %r" % (got, want))


def failed(name, error):
    global _status
    _status = 1
    print("FAIL %s: %s" % (name, " ".join(("%s: %s" % (type(error).__name__, error)).split())))


def run(scenarios):
    """Runs (name, function) pairs, in order, and ends the program."""
    for name, scenario in scenarios:
        try:
            scenario()
        except Exception as error:
            failed(name, error)
        else:
            print("ok", name)
    sys.exit(_status)


async def run_async(scenarios):
    """Runs (name, coroutine function) pairs, in order; the caller exits with what it returns."""
    for name, scenario in scenarios:
        try:
            await scenario()
        except Exception as error:
            failed(name, error)
        else:
            print("ok", name)
    return _status
