"""Elections of kazoo: who is elected leads until it is told to resign."""

import threading


class Candidate:
    def __init__(self, session, path, name):
        self.election = session.client.Election(path, name)
        self.changed = threading.Condition()
        self.running = False
        self.leads = False
        self.over = False

    def start(self):
        with self.changed:
            self.changed.wait_for(lambda: not self.running, 60)
            if self.running:
                raise RuntimeError("it is a candidate already")
            self.running, self.over = True, False
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        try:
            self.election.run(self.lead)
        finally:
            self.set(running=False)

    def lead(self):
        self.set(leads=True)
        with self.changed:
            self.changed.wait_for(lambda: self.over)
        self.set(leads=False)

    def set(self, **values):
        with self.changed:
            self.__dict__.update(values)
            self.changed.notify_all()

    def wait(self):
        with self.changed:
            self.changed.wait_for(lambda: self.leads)

    def resign(self):
        with self.changed:
            if not self.leads:
                raise RuntimeError("it does not lead")
            self.over = True
            self.changed.notify_all()
            self.changed.wait_for(lambda: not self.leads)

    def close(self):
        with self.changed:
            self.over = True
            self.changed.notify_all()
            if self.running and not self.leads:
                self.election.cancel()
            self.changed.wait_for(lambda: not self.running)


def run(session, request):
    op, path, name = request["op"], request["path"], request["candidate"]
    with session.sessions.lock:  # other threads may ask for it
        candidate = session.recipe(("election", path, name), lambda: Candidate(session, path, name))
    if op == "selector.start":
        return candidate.start()
    if op == "selector.leads":
        return candidate.leads
    if op == "selector.await":
        return candidate.wait()
    if op == "selector.resign":
        return candidate.resign()
    if op == "selector.close":
        return candidate.close()
    raise NotImplementedError(op)
