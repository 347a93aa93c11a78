import java.util.Collection;

/** Lock is what the locks of Curator have in common here. As it is, it locks nothing. */
interface Lock {
    /** Waits without end if millis is negative. */
    default boolean acquire(int units, long millis) throws Exception {
        return true;
    }

    default void release() throws Exception { }

    /** The paths of the nodes of all that hold or wait. */
    default Collection<String> participants() throws Exception {
        throw new UnsupportedOperationException();
    }

    default void revocable(Runnable revoked) {
        throw new UnsupportedOperationException();
    }
}
