// Creates frames over a table's files, and their indexes, with one call each: a call from Python
// takes about as long as most of the work done here.
package deltaplane;

import java.lang.ref.WeakReference;
import java.net.URI;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.Path;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.ExperimentalMethods;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.Dataset$;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.CacheManager;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation$;
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation$;
import org.apache.spark.sql.execution.streaming.sources.PythonForeachBatchHelper;
import org.apache.spark.sql.streaming.DataStreamWriter;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

public final class Frames {
  private final PrepareScans rule;
  // Relations whose queries read the newest version, held weakly: as long as a frame or the cache
  // references them.
  private final List live = new ArrayList();

  public Frames(PrepareScans rule) {
    this.rule = rule;
  }

  // An index that calls a Python object. Indexes with the same name are equal. `pinned`: all
  // queries read one version.
  public DeltaplaneFileIndex index(
      BiFunction python, SparkSession session, String name, String root, String partitions, boolean pinned) {
    Seq roots = Scala.seq(Collections.singletonList(new Path(URI.create(root))));
    return new DeltaplaneFileIndex(python, session.sparkContext(), name, roots, struct(partitions), pinned);
  }

  // The rows of the Parquet files of an index. The schema, as JSON, includes the partition columns.
  // `options` alternates names and values. `streaming`: the rows are a micro-batch. `tracking`: see
  // ScanFormat.of.
  public Dataset frame(
      SparkSession session, DeltaplaneFileIndex index, String schema, String options, boolean streaming, String tracking) {
    prepareScans(session);
    HashMap given = new HashMap();
    String[] said = options.split("\0", -1);
    for (int i = 0; i + 1 < said.length; i += 2) given.put(said[i], said[i + 1]);
    HadoopFsRelation relation =
        new HadoopFsRelation(
            index, index.partitionSchema(), struct(schema), Option.empty(), ScanFormat.of(tracking),
            PythonUtils.toScalaMap(given), session);
    if (!index.isPinned()) remember(relation);
    if (!streaming) return session.baseRelationToDataFrame(relation);
    return Dataset$.MODULE$.ofRows(session, LogicalRelation$.MODULE$.apply(relation, true));
  }

  // Invalidates cached frames of tables that have a newer version than at the last call, so that
  // their next use computes them again, as for Spark's own tables. This includes frames derived
  // from them by filters and joins.
  public void recache(SparkSession session) {
    CacheManager cache = session.sharedState().cacheManager();
    if (cache.isEmpty()) return;
    List stale = new ArrayList();
    synchronized (live) {
      for (Iterator i = live.iterator(); i.hasNext(); ) {
        HadoopFsRelation one = (HadoopFsRelation) ((WeakReference) i.next()).get();
        if (one == null) i.remove();
        else stale.add(one);
      }
    }
    for (Iterator i = stale.iterator(); i.hasNext(); ) {
      HadoopFsRelation one = (HadoopFsRelation) i.next();
      if (((DeltaplaneFileIndex) one.location()).hasChanged())
        cache.recacheByPlan(session, LogicalRelation$.MODULE$.apply(one, false));
    }
  }

  private void remember(HadoopFsRelation relation) {
    synchronized (live) {
      for (Iterator i = live.iterator(); i.hasNext(); ) if (((WeakReference) i.next()).get() == null) i.remove();
      live.add(new WeakReference(relation));
    }
  }

  // A stream's source that calls a Python object, and its streaming rows. `tracking`: see
  // ScanFormat.of.
  public Dataset followed(SparkSession session, BiFunction python, String schema, String tracking) {
    StructType hidden = ScanFormat.of(tracking).hiddenType();
    Followed source = new Followed(python, struct(schema), session, hidden, false);
    LogicalPlan rows = StreamingExecutionRelation$.MODULE$.apply(source, session);
    return Dataset$.MODULE$.ofRows(session, HiddenMetadata.over(rows));
  }

  // A frame over scans, with the hidden column `_metadata`.
  public Dataset withMetadata(SparkSession session, Dataset frame) {
    return Dataset$.MODULE$.ofRows(session, HiddenMetadata.over(frame.queryExecution().analyzed()));
  }

  // Sends a stream's batches to a Python object, which takes a batch and its number.
  public void sink(DataStreamWriter writer, BiFunction python) {
    PythonForeachBatchHelper.callForeachBatch(writer, new Batches(python));
  }

  // Makes the session's analyzer call Python for relations that name Delta tables; false if its
  // rules can't be changed.
  public boolean asks(BiFunction python, SparkSession session) {
    try {
      Relations.install(python, session);
      return true;
    } catch (Exception e) {
      return false;
    }
  }

  public void asksNoMore(SparkSession session) throws Exception {
    Relations.remove(session);
  }

  public boolean isAsking(SparkSession session) {
    try {
      return Relations.isInstalled(session);
    } catch (Exception e) {
      return false;
    }
  }

  // The names in a statement or an expression: see Statements.
  public String[] names(SparkSession session, String text, boolean expression) throws Exception {
    return expression ? Statements.readExpression(session, text) : Statements.read(session, text);
  }

  // A table's catalog entry: see Catalogs.
  public String[] heldTable(SparkSession session, String name) throws Exception {
    return Catalogs.table(session, name);
  }

  public void changeHeld(SparkSession session, String name, String provider, String schema, HashMap properties)
      throws Exception {
    Catalogs.change(session, name, provider, struct(schema), properties);
  }

  public void createHeld(
      SparkSession session, String name, String provider, String schema, String location, HashMap properties)
      throws Exception {
    Catalogs.create(session, name, provider, struct(schema), location, properties);
  }

  public void renameHeld(SparkSession session, String name, String to) throws Exception {
    Catalogs.rename(session, name, to);
  }

  public void moveHeld(SparkSession session, String name, String location) throws Exception {
    Catalogs.move(session, name, location);
  }

  // The table whose columns a view selects: see Views.
  public String[] plainView(Dataset view) {
    return Views.plain(view);
  }

  public boolean readsTables(Dataset frame) {
    return Views.reads(frame);
  }

  public void script(boolean runs) {
    Relations.script(runs);
  }

  // A frame's rows under a name of several parts.
  public Dataset named(SparkSession session, Dataset frame, String[] parts) {
    return Dataset$.MODULE$.ofRows(session, Relations.named(frame, parts));
  }

  // The SQL of the expressions that a query selects, once Spark has put parameters' values into
  // them.
  public String[] selected(Dataset frame) {
    java.util.ArrayList found = new java.util.ArrayList();
    Project of = (Project) frame.queryExecution().analyzed();
    for (java.util.Iterator i = Scala.iterator(of.projectList()); i.hasNext(); ) {
      Object one = i.next();
      found.add(((Expression) (one instanceof Alias ? (Object) ((Alias) one).child() : one)).sql());
    }
    return (String[]) found.toArray(new String[0]);
  }

  // The SQL of the values of the expressions that a query without relations selects; null where one
  // isn't a constant.
  public String[] constants(Dataset frame) {
    Object plan = frame.queryExecution().optimizedPlan();
    if (!(plan instanceof Project) || !((Project) plan).child().output().isEmpty()) return null;
    ArrayList found = new ArrayList();
    for (Iterator i = Scala.iterator(((Project) plan).projectList()); i.hasNext(); ) {
      Object one = i.next();
      Expression of = (Expression) (one instanceof Alias ? (Object) ((Alias) one).child() : one);
      if (!of.foldable()) return null;
      found.add(new Literal(of.eval(null), of.dataType()).sql());
    }
    return (String[]) found.toArray(new String[0]);
  }

  // Columns as expressions and the reverse: see Columns.
  public Column column(Expression expression) {
    return Columns.column(expression);
  }

  public Expression expression(Column column) {
    return Columns.expression(column);
  }

  public Expression unresolved(Column column) {
    return Columns.unresolved(column);
  }

  public String columnSql(Column column) {
    return Columns.sql(column);
  }

  public String columnKind(Column column) {
    return Columns.kind(column);
  }

  public Expression call(Class owner, String method, Seq arguments) {
    return Columns.call(owner, method, arguments);
  }

  // Makes the session's optimizer ask indexes for relations with known files.
  private void prepareScans(SparkSession session) {
    ExperimentalMethods methods = session.experimental();
    Seq rules = (Seq) methods.extraOptimizations();
    if (!rules.contains(rule)) methods.extraOptimizations_$eq(Scala.appended(rules, rule));
  }

  private static StructType struct(String json) {
    return (StructType) DataType.fromJson(json);
  }
}
