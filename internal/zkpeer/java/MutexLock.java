import java.util.Collection;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** MutexLock is a mutex, or one side of a read-write lock. */
final class MutexLock implements Lock {
    private final InterProcessMutex mutex;

    MutexLock(InterProcessMutex mutex) {
        this.mutex = mutex;
    }

    @Override
    public boolean acquire(int units, long millis) throws Exception {
        if (units != 1) {
            throw new IllegalArgumentException("a mutex has one unit, not " + units);
        }
        if (millis >= 0) {
            return mutex.acquire(millis, TimeUnit.MILLISECONDS);
        }
        mutex.acquire();
        return true;
    }

    @Override
    public void release() throws Exception {
        mutex.release();
    }

    @Override
    public Collection<String> participants() throws Exception {
        return mutex.getParticipantNodes();
    }

    @Override
    public void revocable(Runnable revoked) {
        mutex.makeRevocable(m -> revoked.run());
    }
}
