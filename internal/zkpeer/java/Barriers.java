import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;

/** Barriers are the operations of both kinds of barriers. */
final class Barriers {
    private Barriers() { }

    static Object run(Session s, Request r) throws Exception {
        return r.op().startsWith("double") ? both(s, r) : one(s, r);
    }

    private static Object one(Session s, Request r) throws Exception {
        DistributedBarrier barrier = new DistributedBarrier(s.client, r.path());
        switch (r.op()) {
            case "barrier.set":
                barrier.setBarrier();
                return null;
            case "barrier.remove":
                barrier.removeBarrier();
                return null;
            case "barrier.wait":
                if (r.has("timeout")) {
                    return barrier.waitOnBarrier(r.number("timeout"), TimeUnit.MILLISECONDS);
                }
                barrier.waitOnBarrier();
                return true;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }

    /**
     * Waits until all that has happened so far was heard. What comes to a barrier late, when it
     * is leaving already, it may take for the last other member's going.
     */
    private static void hear(Session s, String path) throws Exception {
        CountDownLatch heard = new CountDownLatch(1);
        s.client.checkExists().inBackground((client, event) -> client.runSafe(heard::countDown)).forPath(path);
        heard.await();
    }

    /** Each thread is a member. */
    private static Object both(Session s, Request r) throws Exception {
        String key = "doublebarrier " + r.path() + " " + r.thread();
        int members = r.number("members");
        DistributedDoubleBarrier barrier =
                s.recipe(key, () -> new DistributedDoubleBarrier(s.client, r.path(), members));
        switch (r.op()) {
            case "doublebarrier.enter":
                barrier.enter();
                hear(s, r.path());
                return null;
            case "doublebarrier.leave":
                s.forget(key); // its node is gone, and so is its name
                barrier.leave();
                return null;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }
}
