"""Finds what a request asks for."""

import election
import locks

FAMILIES = {
    "lock": locks.run,
    "selector": election.run,
}


def run(sessions, request):
    family = request["op"].split(".")[0]
    session = sessions.get(request["session"])
    if family == "connect":
        return None
    if family not in FAMILIES:
        raise NotImplementedError("kazoo has no " + family)
    return FAMILIES[family](session, request)
