import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;

/** Cpu is the time that this process has used so far. */
final class Cpu {
    private Cpu() { }

    static long used() {
        return ((OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
