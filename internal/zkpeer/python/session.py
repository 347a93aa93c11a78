"""A session is a client of its own, with the recipes that were made for it."""

import threading

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.connection import _SESSION_EXPIRED


class Sessions:
    """Are opened when they are used first."""

    def __init__(self, servers, timeout, patterns, wire):
        self.servers = servers
        self.timeout = timeout
        self.patterns = patterns
        self.wire = wire
        self.lock = threading.Lock()
        self.all = {}

    def get(self, name):
        with self.lock:
            if name not in self.all:
                self.all[name] = Session(name, self)
            return self.all[name]

    def close(self):
        for session in self.all.values():
            session.client.stop()


class Session:
    def __init__(self, name, sessions):
        self.name = name
        self.sessions = sessions
        self.patterns = sessions.patterns
        self.recipes = {}
        self.client = KazooClient(hosts=sessions.servers, timeout=sessions.timeout)
        self.client.add_listener(lambda state: self.event(state))
        self.client.start(timeout=20)

    def event(self, name, path=""):
        self.sessions.wire.event(self.name, name, path)

    def recipe(self, key, make):
        """Keys name their thread, so that no other one looks for them."""
        if key not in self.recipes:
            self.recipes[key] = make()
        return self.recipes[key]

    def id(self):
        """There is none as long as there is no connection."""
        return self.client.retry(self.connected_id)

    def connected_id(self):
        client_id = self.client.client_id
        if client_id is None:
            raise ConnectionLoss()
        return client_id[0]

    def expire(self):
        """Ends the session on the server: a second connection takes it over and closes it."""
        other = KazooClient(
            hosts=self.sessions.servers,
            timeout=self.sessions.timeout,
            client_id=self.client.client_id,
        )
        other.start(timeout=20)
        other.stop()
        other.close()
        try:
            self.client.exists("/")  # the client learns it now, and not by its next ping
        except Exception:
            pass  # that was wanted

    def abandon(self):
        """Leaves the session behind, until it times out."""
        self.client._call(_SESSION_EXPIRED, self.client.handler.async_result())
