// A stream's source that calls Python, where Spark's class can't be extended: an error of Python ends the query
// as a JVM exception.
package deltaplane;

import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.read.streaming.ReadLimit;
import org.apache.spark.sql.connector.read.streaming.SupportsTriggerAvailableNow;
import org.apache.spark.sql.execution.streaming.Offset;
import org.apache.spark.sql.execution.streaming.Source;
import org.apache.spark.sql.types.StructType;
import scala.Option;

public final class Followed implements Source, SupportsTriggerAvailableNow {
  // Takes the name of a method, and its arguments after this source.
  private final BiFunction python;
  private final StructType schema;
  private final SparkSession session;
  private final StructType hidden;
  private final boolean shown;
  private Followed other;

  // `hidden`: what `_metadata` is made of; `shown`: whether it is the last column.
  public Followed(BiFunction python, StructType schema, SparkSession session, StructType hidden, boolean shown) {
    this.python = python;
    this.schema = schema;
    this.session = session;
    this.hidden = hidden;
    this.shown = shown;
  }

  public SparkSession session() {
    return session;
  }

  public StructType hiddenType() {
    return hidden;
  }

  // The source of the same rows with `_metadata` behind their columns; the same one at each call, as Spark tells sources apart
  // by what they are.
  public synchronized Followed withMetadata() {
    if (shown) return this;
    if (other == null)
      other = new Followed(python, schema.add(ScanFormat.HIDDEN, hidden, false), session, hidden, true);
    return other;
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
    return (Dataset) ask(shown ? "getBatchWithMetadata" : "getBatch", start.isDefined() ? start.get() : null, end);
  }

  // Never called, since the source determines the end of a batch.
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
