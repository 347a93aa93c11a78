import java.util.Map;
import java.util.NoSuchElementException;

/** Request is one line that came in. */
record Request(Map<String, Object> fields) {
    long id() {
        return number("id", 0);
    }

    String op() {
        return text("op");
    }

    String session() {
        return text("session");
    }

    /** Threads of different sessions differ. */
    String thread() {
        return session() + "/" + text("thread");
    }

    String path() {
        return text("path");
    }

    String text(String name) {
        Object value = fields.get(name);
        if (value == null) {
            throw new NoSuchElementException(fields.get("op") + " needs " + name);
        }
        return (String) value;
    }

    boolean has(String name) {
        return fields.containsKey(name);
    }

    long number(String name, long otherwise) {
        return has(name) ? (Long) fields.get(name) : otherwise;
    }

    int number(String name) {
        if (!has(name)) {
            throw new NoSuchElementException(op() + " needs " + name);
        }
        return Math.toIntExact((Long) fields.get(name));
    }
}
