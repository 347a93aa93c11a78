/** Operations finds what a request asks for. */
final class Operations {
    private Operations() { }

    static Object run(Clients clients, Request r) throws Exception {
        String family = r.op().split("\\.")[0];
        switch (family) {
            case "contest":
                return Contests.run(clients, r);
            default:
        }
        Session s = clients.session(r.session());
        switch (family) {
            case "connect":
                return null;
            case "lock":
                return Locks.run(s, r);
            case "latch":
                return Latches.run(s, r);
            case "selector":
                return Selector.run(s, r);
            case "barrier":
            case "doublebarrier":
                return Barriers.run(s, r);
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }
}
