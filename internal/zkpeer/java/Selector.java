import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;

/** Selector leads until it is told to resign. When the connection is lost, Curator interrupts it. */
final class Selector extends LeaderSelectorListenerAdapter {
    private final LeaderSelector selector;
    private boolean started;
    private boolean leads;
    private boolean resigned;

    private Selector(Session session, String path, String id) {
        selector = new LeaderSelector(session.client, path, this);
        selector.setId(id);
    }

    static Object run(Session s, Request r) throws Exception {
        String key = "selector " + r.path() + " " + r.text("candidate");
        Selector mine = s.recipe(key, () -> new Selector(s, r.path(), r.text("candidate")));
        switch (r.op()) {
            case "selector.start":
                mine.start();
                return null;
            case "selector.leads":
                return mine.selector.hasLeadership();
            case "selector.await":
                mine.await();
                return null;
            case "selector.resign":
                mine.resign();
                return null;
            case "selector.close":
                s.forget(key);
                mine.selector.close();
                return null;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }

    private void start() throws InterruptedException {
        synchronized (this) {
            resigned = false;
        }
        if (!started) {
            started = true;
            selector.start();
            return;
        }
        // Who has resigned just now may still be about to release the lock.
        for (int i = 0; !selector.requeue(); i++) {
            if (i == 1000) {
                throw new IllegalStateException("it is a candidate already");
            }
            Thread.sleep(5);
        }
    }

    private synchronized void await() throws InterruptedException {
        while (!leads) {
            wait();
        }
    }

    private synchronized void resign() throws InterruptedException {
        if (!leads) {
            throw new IllegalStateException("it does not lead");
        }
        resigned = true;
        notifyAll();
        while (leads) {
            wait();
        }
    }

    @Override
    public void takeLeadership(CuratorFramework client) throws Exception {
        try {
            synchronized (this) {
                leads = true;
                notifyAll();
                while (!resigned) {
                    wait();
                }
            }
        } finally {
            synchronized (this) {
                leads = false;
                notifyAll();
            }
        }
    }
}
