import java.util.ArrayList;
import java.util.List;

/** Arena is what a lock protects. If two are inside, they trip over each other. */
final class Arena {
    private volatile boolean inside;
    private volatile long grants;
    private volatile int worker;
    private volatile long released; // just before

    private final List<String> wrong = new ArrayList<>();

    /** Returns how long ago another worker began to release the lock, or -1 if it was the same one. */
    long enter(int id) {
        long now = System.nanoTime();
        if (inside) {
            wrong("worker " + id + " holds while worker " + worker + " holds");
        }
        long gap = grants > 0 && worker != id ? now - released : -1;
        inside = true;
        worker = id;
        return gap;
    }

    long grants() {
        return grants;
    }

    /** Grants are those that there were on entering. */
    void leave(int id, long before) {
        if (worker != id || grants != before || !inside) {
            wrong("worker " + worker + " was in while worker " + id + " held");
        }
        grants = before + 1;
        inside = false;
        released = System.nanoTime();
    }

    /** Of many mistakes the first ones say enough. */
    void wrong(String what) {
        synchronized (wrong) {
            if (wrong.size() < 5) {
                wrong.add(what);
            }
        }
    }

    List<String> wrong() {
        synchronized (wrong) {
            return List.copyOf(wrong);
        }
    }
}
