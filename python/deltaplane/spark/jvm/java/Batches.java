// A stream's sink that passes its batches to Python. An error of Python, or one that Spark raised in Python's call, ends the query unchanged.
package deltaplane;

import java.util.function.BiFunction;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchFunction;
import org.apache.spark.unsafe.Platform;

public final class Batches implements PythonForeachBatchFunction {
  private final BiFunction python;

  public Batches(BiFunction python) {
    this.python = python;
  }

  public void call(Dataset batch, long id) {
    Object answer = Refused.unless(python.apply(batch, Long.valueOf(id)));
    if (answer instanceof Throwable) Platform.throwException((Throwable) answer);
  }
}
