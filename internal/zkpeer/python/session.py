"""A session is a client of its own, with the recipes that were made for it."""

import threading

from kazoo.client import KazooClient


class Sessions:
    """Are opened when they are used first."""

    def __init__(self, servers, timeout, patterns):
        self.servers = servers
        self.timeout = timeout
        self.patterns = patterns
        self.lock = threading.Lock()
        self.all = {}

    def get(self, name):
        with self.lock:
            if name not in self.all:
                self.all[name] = Session(self)
            return self.all[name]


class Session:
    def __init__(self, sessions):
        self.sessions = sessions
        self.patterns = sessions.patterns
        self.recipes = {}
        self.client = KazooClient(hosts=sessions.servers, timeout=sessions.timeout)
        self.client.start(timeout=20)

    def recipe(self, key, make):
        """Keys name their thread, so that no other one looks for them."""
        if key not in self.recipes:
            self.recipes[key] = make()
        return self.recipes[key]
