// What Python's index answers for one scan: its files, which come as bytes, and what is known of them. The same for whoever
// asks the same of the same version.
package deltaplane;

import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;

public final class Found {
  // What a file says of its blocks; Spark uses it to split files, and Hadoop's own for local files is 32 MiB.
  private static final long BLOCK_SIZE = 128L << 20;

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
  // The answer's length.
  public final int bytes;
  // Where the directories come from, until they are made.
  private ByteBuffer from;
  private PartitionDirectory[] directories;

  public Found(byte[] answer) {
    bytes = answer.length;
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
    from = all;
  }

  // Each partition's values, and its files. Nobody changes them.
  public synchronized PartitionDirectory[] directories() {
    if (directories == null) {
      directories = made(from);
      from = null;
    }
    return directories;
  }

  private static PartitionDirectory[] made(ByteBuffer from) {
    FsPermission permission = FsPermission.getFileDefault();
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
