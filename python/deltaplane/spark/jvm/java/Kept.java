// A cache of one index's most recent answers, bounded by their total size: a version's files never change.
package deltaplane;

import java.util.Iterator;
import java.util.LinkedHashMap;

public final class Kept {
  private static final long MOST_BYTES = 4L << 20;

  // By question, least recently used first.
  private final LinkedHashMap answers = new LinkedHashMap(16, 0.75f, true);
  private long bytes = 0;

  public synchronized Found get(String question) {
    return (Found) answers.get(question);
  }

  public synchronized void put(String question, Found found) {
    drop((Found) answers.remove(question));
    if (found.bytes > MOST_BYTES) return;
    answers.put(question, found);
    bytes += found.bytes;
    Iterator oldest = answers.values().iterator();
    while (bytes > MOST_BYTES) {
      drop((Found) oldest.next());
      oldest.remove();
    }
  }

  private void drop(Found found) {
    if (found != null) bytes -= found.bytes;
  }
}
