import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.Participant;

/** Latches are the operations of LeaderLatch. */
final class Latches {
    private Latches() { }

    static Object run(Session s, Request r) throws Exception {
        String key = "latch " + r.path() + " " + r.text("candidate");
        LeaderLatch latch = s.recipe(key, () -> new LeaderLatch(s.client, r.path(), r.text("candidate")));
        switch (r.op()) {
            case "latch.start":
                latch.start();
                return null;
            case "latch.leads":
                return latch.hasLeadership();
            case "latch.await":
                latch.await();
                return true;
            case "latch.participants":
                return list(latch.getParticipants());
            case "latch.close":
                s.forget(key); // one that is closed cannot be started again
                latch.close();
                return null;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }

    private static List<Object> list(Collection<Participant> participants) {
        List<Object> all = new ArrayList<>();
        for (Participant p : participants) {
            all.add(Map.of("id", p.getId(), "leader", p.isLeader()));
        }
        return all;
    }
}
