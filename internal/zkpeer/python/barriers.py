"""Both kinds of barriers."""


def one(session, worker, request):
    op = request["op"]
    barrier = session.client.Barrier(request["path"])
    if op == "barrier.set":
        return barrier.create()
    if op == "barrier.remove":
        barrier.remove()
        return None
    if op == "barrier.wait":
        timeout = request.get("timeout")
        return barrier.wait(None if timeout is None else timeout / 1000)
    raise NotImplementedError(op)


def both(session, worker, request):
    """Each thread is a member."""
    op, path, thread, members = request["op"], request["path"], request["thread"], request["members"]
    if "timeout" in request:
        raise NotImplementedError("a double barrier of kazoo has no timeout")
    key = ("double", path, thread)
    barrier = session.recipe(key, lambda: session.client.DoubleBarrier(path, members, thread))
    if op == "doublebarrier.enter":
        barrier.enter()
        if not barrier.participating:
            raise RuntimeError("it has not entered")  # kazoo keeps the reason to itself
        return True
    if op == "doublebarrier.leave":
        del session.recipes[key]  # its node is gone, and so is its name
        barrier.leave()
        return True
    raise NotImplementedError(op)
