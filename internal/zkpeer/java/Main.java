import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/** Main answers requests: those of one thread in order, those of different threads at the same time. */
public final class Main {
    public static void main(String[] args) throws Exception {
        Wire wire = new Wire(System.in, System.out);
        System.setOut(System.err); // whatever else is said is no answer
        new Main(new Clients(args[0], Integer.parseInt(args[1]), wire), wire).serve();
        Runtime.getRuntime().halt(0); // whoever has started this is gone: nobody waits for the sessions
    }

    private final Clients clients;
    private final Wire wire;
    private final ConcurrentMap<String, ExecutorService> workers = new ConcurrentHashMap<>();

    private Main(Clients clients, Wire wire) {
        this.clients = clients;
        this.wire = wire;
    }

    private void serve() throws Exception {
        for (Request r; (r = wire.read()) != null; ) {
            Request request = r;
            // A lock of Curator belongs to the thread that has acquired it: each has one for ever.
            ExecutorService worker = workers.computeIfAbsent(r.thread(), Main::worker);
            worker.execute(() -> answer(request));
        }
    }

    private void answer(Request r) {
        try {
            wire.reply(r.id(), Operations.run(clients, r));
        } catch (Throwable t) {
            wire.fail(r.id(), t);
        }
    }

    private static ExecutorService worker(String name) {
        return Executors.newSingleThreadExecutor(task -> new Thread(task, name));
    }
}
