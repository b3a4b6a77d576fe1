// The Python index's answer for one scan: its files, encoded as bytes, with sizes and statistics.
// Shared by all callers that ask the same question about the same version.
package deltaplane;

import java.net.URI;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.execution.datasources.PartitionDirectory$;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;

public final class Found {
  // The reported block size, by which Spark splits files; Hadoop's own for local files is 32 MiB.
  private static final long BLOCK_SIZE = 128L << 20;
  // Stands for a number that the log doesn't have.
  private static final long NO_NUMBER = -1;

  public final String name;
  public final String version;
  public final String understood;
  public final String files;
  public final boolean byJob;
  public final long sizeInBytes;
  // The number of rows; negative if unknown.
  public final long rows;
  // Five texts for each column: see PrepareScans.
  public final String[] columns;
  // The length of the encoded answer in bytes.
  public final int bytes;
  // The encoded directories, until they are decoded.
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

  // Each partition's values, and its files. Immutable.
  public synchronized PartitionDirectory[] directories() {
    if (directories == null) {
      directories = made(from);
      from = null;
    }
    return directories;
  }

  private static PartitionDirectory[] made(ByteBuffer from) {
    FsPermission permission = FsPermission.getFileDefault();
    boolean tracked = from.getInt() != 0;
    PartitionDirectory[] all = new PartitionDirectory[from.getInt()];
    for (int d = 0; d < all.length; d++) {
      UnsafeRow row = new UnsafeRow(from.getInt());
      byte[] values = bytes(from);
      row.pointTo(values, values.length);
      FileStatusWithMetadata[] files = new FileStatusWithMetadata[from.getInt()];
      for (int f = 0; f < files.length; f++) {
        long size = from.getLong();
        long modified = from.getLong();
        Path path = new Path(URI.create(new String(bytes(from), StandardCharsets.US_ASCII)));
        FileStatus file = new FileStatus(size, false, 1, BLOCK_SIZE, modified, 0L, permission, "", "", path);
        Map numbers = (Map) Map$.MODULE$.empty();
        if (tracked) {
          numbers = with(numbers, ScanFormat.BASE_ROW_ID, from.getLong());
          numbers = with(numbers, ScanFormat.DEFAULT_ROW_COMMIT_VERSION, from.getLong());
        }
        files[f] = new FileStatusWithMetadata(file, numbers);
      }
      all[d] = PartitionDirectory$.MODULE$.apply(row, Scala.seqOf(files));
    }
    return all;
  }

  private static Map with(Map numbers, String name, long number) {
    return number == NO_NUMBER ? numbers : (Map) numbers.updated(name, Long.valueOf(number));
  }

  private static byte[] bytes(ByteBuffer from) {
    byte[] some = new byte[from.getInt()];
    from.get(some);
    return some;
  }
}
