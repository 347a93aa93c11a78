import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Crowd is one holder with many waiters behind it, who are drained. */
final class Crowd {
    private static final int HOLDER = -1;

    private final List<CuratorFramework> clients;
    private final String path;
    private final InterProcessMutex first;
    private final Arena arena = new Arena();
    private final List<Waiter> waiters = new ArrayList<>();
    private final CountDownLatch left;
    private final long before;
    private volatile boolean abandoned;

    Crowd(Clients all, Request r) throws Exception {
        path = r.path();
        int many = r.number("waiters");
        left = new CountDownLatch(many);
        int others = r.number("clients");
        clients = all.make(others + 1);
        first = new InterProcessMutex(clients.get(0), path);
        first.acquire();
        arena.enter(HOLDER);
        before = arena.grants();
        for (int i = 0; i < many; i++) {
            waiters.add(new Waiter(i, new InterProcessMutex(clients.get(1 + i % others), path)));
        }
    }

    /** Returns when all have their nodes. */
    void lineUp(int limit) throws Exception {
        waiters.forEach(Thread::start);
        long began = System.nanoTime();
        while (clients.get(0).getChildren().forPath(path).size() <= waiters.size()) {
            if (System.nanoTime() - began > TimeUnit.MILLISECONDS.toNanos(limit)) {
                throw new IllegalStateException("the waiters are not in line after " + limit + " ms");
            }
            Thread.sleep(20);
        }
    }

    /** Runs in the thread that has acquired the lock. */
    Map<String, Object> run(int limit) throws Exception {
        long cpu = Cpu.used();
        long began = System.nanoTime();
        arena.leave(HOLDER, before);
        first.release();
        left.await(limit, TimeUnit.MILLISECONDS);
        long took = System.nanoTime() - began;
        cpu = Cpu.used() - cpu;
        long stuck = left.getCount();
        long drained = waiters.stream().filter(w -> w.gap >= 0).count();
        abandon();
        List<Long> gaps = new ArrayList<>();
        waiters.stream().filter(w -> w.gap >= 0).forEach(w -> gaps.add(w.gap));
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("took", took);
        figures.put("cpu", cpu);
        figures.put("drained", drained);
        figures.put("gaps", gaps);
        figures.put("stuck", stuck);
        figures.put("wrong", arena.wrong());
        return figures;
    }

    private void abandon() throws InterruptedException {
        abandoned = true;
        waiters.forEach(Thread::interrupt);
        for (Waiter w : waiters) {
            w.join();
        }
    }

    void close() throws InterruptedException {
        abandon();
        Clients.close(clients);
    }

    private final class Waiter extends Thread {
        private final int id;
        private final InterProcessMutex mutex;
        volatile long gap = -1;

        Waiter(int id, InterProcessMutex mutex) {
            super("waiter-" + id);
            this.id = id;
            this.mutex = mutex;
        }

        @Override
        public void run() {
            try {
                mutex.acquire();
                gap = arena.enter(id);
                arena.leave(id, arena.grants());
                mutex.release();
            } catch (Exception e) {
                if (!abandoned) {
                    arena.wrong(e.toString());
                }
            } finally {
                left.countDown();
            }
        }
    }
}
