import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;

/** Contests are the operations of the workloads: what is made ready by one request is run by the next. */
final class Contests {
    private static final ConcurrentMap<String, Contest> contests = new ConcurrentHashMap<>();

    private Contests() { }

    static Object run(Clients clients, Request r) throws Exception {
        switch (r.op()) {
            case "contest.prepare":
                Contest contest = new Contest(clients, r);
                contests.put(r.path(), contest);
                contest.warmUp(r.number("warm"));
                return null;
            case "contest.run":
                return contests.get(r.path()).run(r.number("time"), r.number("limit"));
            case "contest.close":
                contests.remove(r.path()).close();
                return null;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }
}
