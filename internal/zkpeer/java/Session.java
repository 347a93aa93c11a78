import java.lang.reflect.Field;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.apache.curator.framework.CuratorFramework;
import org.apache.zookeeper.ClientCnxn;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooKeeper;

/** Session is a client of its own, with the recipes that were made for it. */
final class Session {
    final CuratorFramework client;
    private final String name;
    private final Clients clients;
    private final Wire wire;
    private final ConcurrentMap<String, Object> recipes = new ConcurrentHashMap<>();

    Session(String name, Clients clients, Wire wire) {
        this.name = name;
        this.clients = clients;
        this.wire = wire;
        client = clients.make();
        client.getConnectionStateListenable().addListener((c, state) -> event(state.name(), ""));
        try {
            Clients.connect(List.of(client));
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    void event(String event, String path) {
        wire.event(name, event, path);
    }

    /** Returns the recipe of that key, which is made if it is not there. */
    @SuppressWarnings("unchecked")
    <T> T recipe(String key, Supplier<T> make) {
        return (T) recipes.computeIfAbsent(key, k -> make.get());
    }

    /** Gives up a recipe that cannot be used again. */
    void forget(String key) {
        recipes.remove(key);
    }

    long id() throws Exception {
        return zooKeeper().getSessionId();
    }

    private ZooKeeper zooKeeper() throws Exception {
        return client.getZookeeperClient().getZooKeeper();
    }

    /** Ends the session on the server: a second connection takes it over and closes it. */
    void expire() throws Exception {
        ZooKeeper mine = zooKeeper();
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper other = new ZooKeeper(clients.servers, clients.sessionTimeout, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        }, mine.getSessionId(), mine.getSessionPasswd());
        try {
            if (!connected.await(60, TimeUnit.SECONDS)) {
                throw new IllegalStateException("the second connection was not made");
            }
        } finally {
            other.close();
        }
        try {
            mine.exists("/", false); // the client learns it now, and not by its next ping
        } catch (KeeperException e) {
            // that was wanted
        }
    }

    /**
     * Closes the connection and leaves the session behind, until it times out. The client would close the session if
     * it heard of its end before its own state said so, which the injection changes too late.
     */
    void abandon() throws Exception {
        ZooKeeper mine = zooKeeper();
        Field connection = ZooKeeper.class.getDeclaredField("cnxn");
        connection.setAccessible(true);
        Field state = ClientCnxn.class.getDeclaredField("state");
        state.setAccessible(true);
        state.set(connection.get(mine), ZooKeeper.States.CLOSED);
        mine.getTestable().injectSessionExpiration();
    }
}
