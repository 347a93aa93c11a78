"""All that is acquired and released."""

import time

from kazoo.exceptions import LockTimeout


class NoLock:
    def acquire(self, worker, timeout):
        return True

    def release(self):
        pass


class Mutex:
    """A lock, or one side of a read-write lock."""

    def __init__(self, lock):
        self.lock = lock

    def acquire(self, worker, timeout):
        return acquire(worker, self.lock, timeout)

    def release(self):
        if not self.lock.release():
            raise RuntimeError("it is not held")

    def node(self):
        return self.lock.path + "/" + self.lock.node

    def participants(self):
        return self.lock.contenders()


class Semaphore:
    """Gives back what it has acquired last. A semaphore of kazoo has one lease."""

    def __init__(self, make):
        self.make = make
        self.held = []
        self.looker = make()

    def acquire(self, worker, timeout):
        one = self.make()
        if not acquire(worker, one, timeout):
            return False
        self.held.append(one)
        return True

    def release(self):
        if not self.held:
            raise RuntimeError("no lease is held")
        self.held.pop().release()

    def node(self):
        return self.held[-1].create_path

    def participants(self):
        return self.looker.lease_holders()


def acquire(worker, recipe, timeout):
    """Waits without end if there is no timeout, which is in milliseconds."""
    worker.waiting = recipe
    try:
        if timeout is None:
            return recipe.acquire()
        if timeout == 0:
            return recipe.acquire(blocking=False)
        return recipe.acquire(timeout=timeout / 1000)
    except LockTimeout:
        return False
    finally:
        worker.waiting = None


def find(session, request):
    kind, path, thread = request["kind"], request["path"], request["thread"]
    client = session.client
    if kind == "none":
        return NoLock()
    if kind == "mutex":
        def make():
            return Mutex(client.Lock(path, thread, extra_lock_patterns=session.patterns))
    elif kind == "read":
        def make():
            return Mutex(client.ReadLock(path, thread, extra_lock_patterns=session.patterns))
    elif kind == "write":
        def make():
            return Mutex(client.WriteLock(path, thread, extra_lock_patterns=session.patterns))
    elif kind == "semaphore":
        most = request["max"]

        def make():
            return Semaphore(lambda: client.Semaphore(path, thread, max_leases=most))
    else:
        raise NotImplementedError("kazoo has no " + kind)
    return session.recipe((kind, path, thread, request.get("max")), make)


def run(session, worker, request):
    lock = find(session, request)
    op = request["op"]
    if op == "lock.acquire":
        if request.get("units", 1) != 1:
            raise NotImplementedError("kazoo acquires one unit at a time")
        return lock.acquire(worker, request.get("timeout"))
    if op == "lock.release":
        return lock.release()
    if op == "lock.node":
        return lock.node()
    if op == "lock.participants":
        return lock.participants()
    if op == "lock.count":
        return count(worker, lock, request["file"], request["n"])
    raise NotImplementedError(op)


def count(worker, lock, file, n):
    """Adds to a number in a file, by reading it and writing it."""
    for _ in range(n):
        if not lock.acquire(worker, None):
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
