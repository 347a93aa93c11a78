import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;

/** Contest is a number of threads that acquire and release for a time. */
final class Contest {
    private final List<CuratorFramework> clients;
    private final String path;
    private final int workers;
    private final int names;
    private volatile boolean stop;

    Contest(Clients all, Request r) throws Exception {
        path = r.path();
        workers = r.number("workers");
        names = r.number("names");
        clients = all.make(r.number("clients"));
    }

    /** What a JVM does first is slow: its compiler works while it runs. */
    void warmUp(int millis) throws Exception {
        if (millis > 0) {
            run(millis, 60_000);
        }
    }

    /** Threads that shared a mutex would all be woken by each event, and would all list the nodes. */
    private List<Worker> workers() {
        List<Arena> arenas = new ArrayList<>();
        for (int i = 0; i < names; i++) {
            arenas.add(new Arena());
        }
        List<Worker> all = new ArrayList<>();
        for (int i = 0; i < workers; i++) {
            int name = i % names;
            CuratorFramework client = clients.get(i % clients.size());
            all.add(new Worker(i, new InterProcessMutex(client, path + "/" + name), arenas.get(name)));
        }
        return all;
    }

    Map<String, Object> run(int millis, int limit) throws Exception {
        List<Worker> all = workers();
        stop = false;
        long began = System.nanoTime();
        all.forEach(Thread::start);
        Thread.sleep(millis);
        stop = true;
        long took = System.nanoTime() - began;
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limit);
        for (Worker w : all) {
            w.join(Math.max(1, (end - System.nanoTime()) / 1_000_000));
        }
        int stuck = 0;
        for (Worker w : all) {
            if (w.isAlive()) {
                stuck++;
                w.abandoned = true;
                w.interrupt();
            }
        }
        for (Worker w : all) {
            w.join();
        }
        return result(all, took, stuck);
    }

    private static Map<String, Object> result(List<Worker> all, long took, int stuck) {
        List<Long> each = new ArrayList<>();
        List<Long> gaps = new ArrayList<>();
        List<String> wrong = new ArrayList<>();
        for (Worker w : all) {
            each.add(w.grants);
            gaps.addAll(w.gaps);
        }
        all.stream().map(w -> w.arena).distinct().forEach(arena -> wrong.addAll(arena.wrong()));
        Map<String, Object> figures = new LinkedHashMap<>();
        figures.put("took", took);
        figures.put("each", each);
        figures.put("gaps", gaps);
        figures.put("stuck", stuck);
        figures.put("wrong", wrong);
        return figures;
    }

    void close() throws InterruptedException {
        Clients.close(clients);
    }

    private final class Worker extends Thread {
        final int id;
        final InterProcessMutex mutex;
        final Arena arena;
        final List<Long> gaps = new ArrayList<>(); // of the grants that came from another worker
        long grants; // within the time
        volatile boolean abandoned;

        Worker(int id, InterProcessMutex mutex, Arena arena) {
            super("contest-" + id);
            this.id = id;
            this.mutex = mutex;
            this.arena = arena;
        }

        @Override
        public void run() {
            try {
                while (!stop) {
                    turn();
                }
            } catch (Exception e) {
                if (!abandoned) {
                    arena.wrong(e.toString());
                }
            }
        }

        private void turn() throws Exception {
            mutex.acquire();
            long gap = arena.enter(id);
            long before = arena.grants();
            if (!stop) {
                grants++;
                if (gap >= 0) {
                    gaps.add(gap);
                }
            }
            arena.leave(id, before);
            mutex.release();
        }
    }
}
