// What Python's index answers for one scan: its files as bytes, what is known of them, and for which query and filters.
package deltaplane;

import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;

public final class Found {
  // What a file says of its blocks; Spark uses it to split files, and Hadoop's own for local files is 32 MiB.
  private static final long BLOCK_SIZE = 128L << 20;

  public final Set filters;
  // Null outside of a query.
  public final String query;
  public final String name;
  public final String version;
  public final String understood;
  public final String files;
  public final boolean byJob;
  public final long sizeInBytes;
  // Negative where nobody knows.
  public final long rows;
  // Texts of five for each column: see PrepareScans.
  public final String[] columns;
  private final byte[] answer;
  // Where the directories begin in it.
  private final int start;

  public Found(Set filters, String query, byte[] answer) {
    this.filters = filters;
    this.query = query;
    ByteBuffer all = ByteBuffer.wrap(answer);
    byte[] head = new byte[all.getInt()];
    all.get(head);
    String[] said = new String(head, StandardCharsets.UTF_8).split("\0", -1);
    name = said[0];
    version = said[1];
    understood = said[2];
    files = said[3];
    byJob = !said[4].isEmpty();
    sizeInBytes = Long.parseLong(said[5]);
    rows = Long.parseLong(said[6]);
    columns = new String[said.length - 7];
    System.arraycopy(said, 7, columns, 0, columns.length);
    this.answer = answer;
    start = all.position();
  }

  // Each partition's values, and its files.
  public PartitionDirectory[] directories() {
    FsPermission permission = FsPermission.getFileDefault();
    ByteBuffer from = ByteBuffer.wrap(answer, start, answer.length - start);
    PartitionDirectory[] all = new PartitionDirectory[from.getInt()];
    for (int d = 0; d < all.length; d++) {
      UnsafeRow row = new UnsafeRow(from.getInt());
      byte[] values = bytes(from);
      row.pointTo(values, values.length);
      FileStatus[] files = new FileStatus[from.getInt()];
      for (int f = 0; f < files.length; f++) {
        long size = from.getLong();
        long modified = from.getLong();
        Path path = new Path(URI.create(new String(bytes(from), StandardCharsets.US_ASCII)));
        files[f] = new FileStatus(size, false, 1, BLOCK_SIZE, modified, 0L, permission, "", "", path);
      }
      all[d] = PartitionDirectory$.MODULE$.apply(row, files);
    }
    return all;
  }

  private static byte[] bytes(ByteBuffer from) {
    byte[] some = new byte[from.getInt()];
    from.get(some);
    return some;
  }
}
