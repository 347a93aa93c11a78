import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.core.JsonParser;
import com.fasterxml.jackson.core.JsonToken;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** Wire is the protocol: every line is a flat JSON object, answers may have lists and objects in them. */
final class Wire {
    private final JsonFactory json = new JsonFactory();
    private final BufferedReader in;
    private final OutputStream out;

    Wire(InputStream in, OutputStream out) {
        this.in = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8));
        this.out = out;
    }

    /** Returns null at the end. */
    Request read() throws IOException {
        String line = in.readLine();
        return line == null ? null : new Request(parse(line));
    }

    private Map<String, Object> parse(String line) throws IOException {
        Map<String, Object> fields = new LinkedHashMap<>();
        try (JsonParser p = json.createParser(line)) {
            p.nextToken();
            for (String name; (name = p.nextFieldName()) != null; ) {
                JsonToken token = p.nextToken();
                fields.put(name, token.isNumeric() ? (Object) p.getLongValue() : p.getText());
            }
        }
        return fields;
    }

    void reply(long id, Object value) {
        Map<String, Object> line = new LinkedHashMap<>();
        line.put("id", id);
        line.put("value", value);
        write(line);
    }

    void fail(long id, Throwable error) {
        write(Map.of("id", id, "error", error.toString()));
    }

    void event(String session, String name, String path) {
        write(Map.of("event", name, "session", session, "path", path));
    }

    private void write(Map<String, Object> line) {
        try {
            StringWriter text = new StringWriter();
            try (JsonGenerator g = json.createGenerator(text)) {
                put(g, line);
            }
            byte[] bytes = (text + "\n").getBytes(StandardCharsets.UTF_8);
            synchronized (out) {
                out.write(bytes);
                out.flush();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static void put(JsonGenerator g, Object value) throws IOException {
        if (value instanceof Map<?, ?> map) {
            g.writeStartObject();
            for (Map.Entry<?, ?> entry : map.entrySet()) {
                g.writeFieldName((String) entry.getKey());
                put(g, entry.getValue());
            }
            g.writeEndObject();
        } else if (value instanceof Collection<?> list) {
            g.writeStartArray();
            for (Object one : list) {
                put(g, one);
            }
            g.writeEndArray();
        } else {
            g.writeObject(value); // text, a number, true, false or null
        }
    }
}
