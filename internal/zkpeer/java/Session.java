import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.function.Supplier;
import org.apache.curator.framework.CuratorFramework;

/** Session is a client of its own, with the recipes that were made for it. */
final class Session {
    final CuratorFramework client;
    private final String name;
    private final Wire wire;
    private final ConcurrentMap<String, Object> recipes = new ConcurrentHashMap<>();

    Session(String name, Clients clients, Wire wire) {
        this.name = name;
        this.wire = wire;
        client = clients.make();
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
}
