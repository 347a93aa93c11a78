import java.util.ArrayDeque;
import java.util.Collection;
import java.util.Deque;
import java.util.NoSuchElementException;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;

/** SemaphoreLock gives back what it has acquired last. */
final class SemaphoreLock implements Lock {
    private final InterProcessSemaphoreV2 semaphore;
    private final Deque<Collection<Lease>> held = new ArrayDeque<>();

    SemaphoreLock(CuratorFramework client, String path, int max) {
        semaphore = new InterProcessSemaphoreV2(client, path, max);
    }

    @Override
    public boolean acquire(int units, long millis) throws Exception {
        Collection<Lease> leases = millis < 0
                ? semaphore.acquire(units)
                : semaphore.acquire(units, millis, TimeUnit.MILLISECONDS);
        if (leases == null) {
            return false;
        }
        held.push(leases);
        return true;
    }

    @Override
    public void release() {
        if (held.isEmpty()) {
            throw new NoSuchElementException("no lease is held");
        }
        semaphore.returnAll(held.pop());
    }
}
