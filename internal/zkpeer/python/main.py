"""Answers requests: those of one thread in order, those of different threads at the same time."""

import json
import os
import queue
import sys
import threading

try:
    import kazoo  # noqa: F401
except ImportError:
    sys.exit("kazoo is not installed (on Debian: apt-get install python3-kazoo)")

import operations
from session import Sessions


class Wire:
    """The protocol: every line is a JSON object."""

    def __init__(self, out):
        self.out = out
        self.lock = threading.Lock()

    def write(self, line):
        with self.lock:
            self.out.write(json.dumps(line) + "\n")
            self.out.flush()


class Worker:
    """Has one thread for ever."""

    def __init__(self, name, answer):
        self.requests = queue.Queue()
        self.answer = answer
        threading.Thread(target=self.run, name=name, daemon=True).start()

    def run(self):
        while True:
            self.answer(self.requests.get())


def main():
    servers, timeout, patterns = sys.argv[1], float(sys.argv[2]) / 1000, sys.argv[3:]
    wire = Wire(sys.stdout)
    sys.stdout = sys.stderr  # whatever else is said is no answer
    sessions = Sessions(servers, timeout, patterns)

    def answer(request):
        try:
            value = operations.run(sessions, request)
            wire.write({"id": request["id"], "value": value})
        except Exception as e:
            wire.write({"id": request["id"], "error": repr(e)})

    workers = {}
    for line in sys.stdin:
        request = json.loads(line)
        name = request["session"] + "/" + request["thread"]
        if name not in workers:
            workers[name] = Worker(name, answer)
        workers[name].requests.put(request)
    os._exit(0)  # whoever has started this is gone: nobody waits for the sessions


main()
