import java.nio.file.Path;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.Revoker;

/** Locks are the operations of all that is acquired and released. */
final class Locks {
    private Locks() { }

    static Object run(Session s, Request r) throws Exception {
        if (r.op().equals("lock.revoke")) {
            Revoker.attemptRevoke(s.client, r.path());
            return null;
        }
        Lock lock = find(s, r);
        switch (r.op()) {
            case "lock.acquire":
                return lock.acquire((int) r.number("units", 1), r.number("timeout", -1));
            case "lock.release":
                lock.release();
                return null;
            case "lock.participants":
                return lock.participants();
            case "lock.revocable":
                lock.revocable(() -> s.event("REVOKE", r.path()));
                return null;
            case "lock.count":
                Count.run(lock, Path.of(r.text("file")), r.number("n"));
                return null;
            default:
                throw new UnsupportedOperationException(r.op());
        }
    }

    /**
     * Each thread has recipes of its own. If threads share a mutex of Curator, each event wakes all of them, and
     * each then lists all nodes.
     */
    private static Lock find(Session s, Request r) {
        String kind = r.text("kind");
        String path = r.path();
        String mine = path + " " + r.thread();
        switch (kind) {
            case "none":
                return new Lock() { };
            case "mutex":
                return s.recipe("mutex " + mine, () -> new MutexLock(new InterProcessMutex(s.client, path)));
            case "read":
                return new MutexLock(readWrite(s, path, mine).readLock());
            case "write":
                return new MutexLock(readWrite(s, path, mine).writeLock());
            case "semaphore":
                int max = r.number("max");
                return s.recipe("semaphore " + max + " " + mine, () -> new SemaphoreLock(s.client, path, max));
            case "semaphoremutex":
                return s.recipe("semaphoremutex " + mine, () -> new SemaphoreMutexLock(s.client, path));
            default:
                throw new UnsupportedOperationException(kind);
        }
    }

    private static InterProcessReadWriteLock readWrite(Session s, String path, String mine) {
        return s.recipe("readwrite " + mine, () -> new InterProcessReadWriteLock(s.client, path));
    }
}
