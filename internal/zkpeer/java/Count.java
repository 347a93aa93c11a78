import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.locks.LockSupport;

/** Count adds to a number in a file, by reading it and writing it. */
final class Count {
    private Count() { }

    static void run(Lock lock, Path file, int n) throws Exception {
        for (int i = 0; i < n; i++) {
            lock.acquire(1, -1);
            try {
                increment(file);
            } finally {
                lock.release();
            }
        }
    }

    /** The number has always as many digits, so that a write never shortens the file. */
    private static void increment(Path path) throws IOException {
        try (RandomAccessFile file = new RandomAccessFile(path.toFile(), "rw")) {
            byte[] digits = new byte[20];
            file.readFully(digits);
            long number = Long.parseLong(new String(digits, StandardCharsets.US_ASCII));
            LockSupport.parkNanos(200_000); // another who is here as well is not missed
            file.seek(0);
            file.write(String.format("%020d", number + 1).getBytes(StandardCharsets.US_ASCII));
        }
    }
}
