"""All that is acquired and released."""

import time

from kazoo.exceptions import LockTimeout


class NoLock:
    def acquire(self, timeout):
        return True

    def release(self):
        pass


class Mutex:
    """A lock, or one side of a read-write lock."""

    def __init__(self, lock):
        self.lock = lock

    def acquire(self, timeout):
        return acquire(self.lock, timeout)

    def release(self):
        if not self.lock.release():
            raise RuntimeError("it is not held")


def acquire(recipe, timeout):
    """Waits without end if there is no timeout, which is in milliseconds."""
    try:
        if timeout is None:
            return recipe.acquire()
        if timeout == 0:
            return recipe.acquire(blocking=False)
        return recipe.acquire(timeout=timeout / 1000)
    except LockTimeout:
        return False


def find(session, request):
    kind, path, thread = request["kind"], request["path"], request["thread"]
    client = session.client
    if kind == "none":
        return NoLock()
    kinds = {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}
    if kind not in kinds:
        raise NotImplementedError("kazoo has no " + kind)
    return session.recipe((kind, path, thread), lambda: Mutex(kinds[kind](path, thread, extra_lock_patterns=session.patterns)))


def run(session, request):
    lock = find(session, request)
    op = request["op"]
    if op == "lock.acquire":
        if request.get("units", 1) != 1:
            raise NotImplementedError("kazoo acquires one unit at a time")
        return lock.acquire(request.get("timeout"))
    if op == "lock.release":
        return lock.release()
    if op == "lock.count":
        return count(lock, request["file"], request["n"])
    raise NotImplementedError(op)


def count(lock, file, n):
    """Adds to a number in a file, by reading it and writing it."""
    for _ in range(n):
        if not lock.acquire(None):
            raise RuntimeError("it was not acquired")
        try:
            increment(file)
        finally:
            lock.release()


def increment(path):
    """The number has always as many digits, so that a write never shortens the file."""
    with open(path, "r+b", buffering=0) as file:
        number = int(file.read(20))
        time.sleep(0.0002)  # another who is here as well is not missed
        file.seek(0)
        file.write(b"%020d" % (number + 1))
