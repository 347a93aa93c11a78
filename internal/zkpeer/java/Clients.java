import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.retry.ExponentialBackoffRetry;

/** Clients are the sessions by name; each is opened when it is used first. */
final class Clients {
    final String servers;
    final int sessionTimeout;
    private final Wire wire;
    private final ConcurrentMap<String, Session> sessions = new ConcurrentHashMap<>();

    Clients(String servers, int sessionTimeout, Wire wire) {
        this.servers = servers;
        this.sessionTimeout = sessionTimeout;
        this.wire = wire;
    }

    Session session(String name) {
        return sessions.computeIfAbsent(name, n -> new Session(n, this, wire));
    }

    /** Makes a client that is not connected yet. */
    CuratorFramework make() {
        int connectionTimeout = Math.min(sessionTimeout, 15_000); // Curator warns of a longer one
        return CuratorFrameworkFactory.newClient(
                servers, sessionTimeout, connectionTimeout, new ExponentialBackoffRetry(100, 5));
    }

    /** Makes connected clients. Their sessions have no name. */
    List<CuratorFramework> make(int n) throws InterruptedException {
        List<CuratorFramework> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            all.add(make());
        }
        connect(all);
        return all;
    }

    static void connect(Collection<CuratorFramework> clients) throws InterruptedException {
        clients.forEach(CuratorFramework::start);
        for (CuratorFramework client : clients) {
            if (!client.blockUntilConnected(60, TimeUnit.SECONDS)) {
                close(clients);
                throw new IllegalStateException("no connection after 60 seconds");
            }
        }
    }

    /** Closes all at the same time, since each waits a while. */
    static void close(Collection<CuratorFramework> clients) throws InterruptedException {
        List<Thread> closing = new ArrayList<>();
        for (CuratorFramework client : clients) {
            Thread thread = new Thread(client::close);
            thread.start();
            closing.add(thread);
        }
        for (Thread thread : closing) {
            thread.join();
        }
    }
}
