import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;

/** SemaphoreMutexLock is the lock that no thread owns. */
final class SemaphoreMutexLock implements Lock {
    private final InterProcessSemaphoreMutex mutex;

    SemaphoreMutexLock(CuratorFramework client, String path) {
        mutex = new InterProcessSemaphoreMutex(client, path);
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
}
