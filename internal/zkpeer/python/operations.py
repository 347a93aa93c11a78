"""Finds what a request asks for."""

import barriers
import election
import locks

FAMILIES = {
    "lock": locks.run,
    "selector": election.run,
    "barrier": barriers.one,
    "doublebarrier": barriers.both,
}


def run(sessions, worker, request):
    family = request["op"].split(".")[0]
    if family == "close":
        return sessions.close()
    session = sessions.get(request["session"])
    if family == "connect":
        return None
    if family == "id":
        return session.id()
    if family == "expire":
        return session.expire()
    if family == "abandon":
        return session.abandon()
    if family not in FAMILIES:
        raise NotImplementedError("kazoo has no " + family)
    return FAMILIES[family](session, worker, request)
