// A stream's source that asks Python, for which Spark has no class that may be extended there: what Python refuses ends the query
// as an exception of the JVM's.
package deltaplane;

import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;

public final class Followed implements Source, SupportsTriggerAvailableNow {
  // Takes the name of a method, and its arguments behind this source.
  private final BiFunction python;
  private final StructType schema;

  public Followed(BiFunction python, StructType schema) {
    this.python = python;
    this.schema = schema;
  }

  public StructType schema() {
    return schema;
  }

  public ReadLimit getDefaultReadLimit() {
    return (ReadLimit) ask("getDefaultReadLimit", null, null);
  }

  public void prepareForTriggerAvailableNow() {
    ask("prepareForTriggerAvailableNow", null, null);
  }

  public org.apache.spark.sql.connector.read.streaming.Offset latestOffset(
      org.apache.spark.sql.connector.read.streaming.Offset start, ReadLimit limit) {
    return (org.apache.spark.sql.connector.read.streaming.Offset) ask("latestOffset", start, limit);
  }

  // The rows between two offsets.
  public Dataset getBatch(Option start, Offset end) {
    return (Dataset) ask("getBatch", start.isDefined() ? start.get() : null, end);
  }

  // Never asked, since the source says where a batch ends.
  public Option getOffset() {
    throw new UnsupportedOperationException("latestOffset says where the next batch ends");
  }

  public void stop() {
    ask("stop", null, null);
  }

  public String toString() {
    return (String) ask("toString", null, null);
  }

  private Object ask(String method, Object first, Object second) {
    return Refused.unless(python.apply(method, new Object[] {this, first, second}));
  }
}
