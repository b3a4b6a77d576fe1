// A file index whose name plans show. It forwards each question to Python as one text, unless the
// answer is cached: from an equal question about the same version, or from the optimizer's question
// about the scan.
package deltaplane;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.BiFunction;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.And;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.BasePredicate;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.In;
import org.apache.spark.sql.catalyst.expressions.InSet;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.Predicate$;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.catalyst.types.DataTypeUtils$;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

public final class DeltaplaneFileIndex implements FileIndex {
  // The thread-local property with the id of the query for which a thread plans, the same for all
  // its parts.
  private static final String QUERY = "spark.sql.execution.root.id";
  // Number of cached answers: enough for questions about the last query.
  private static final int PLANS = 16;
  // Values of a set that are looked up one by one; a larger set prunes nothing.
  private static final int LISTED_VALUES = 10000;

  // Python's function. Arguments: the question as a text and, if rows are estimated, the filters.
  // Returns bytes or a text; null; or empty bytes if the known answer is still valid. A text that
  // begins with a NUL is a refusal.
  private final BiFunction python;
  private final SparkContext context;
  private final String name;
  private final Seq roots;
  private final StructType partitions;
  // Whether all queries read one version.
  private final boolean pinned;
  private final ArrayDeque plans;
  private final Kept kept;
  private final boolean prepared;
  // The table's size; negative if unknown.
  private volatile long sizeInBytes;
  // The optimizer's answer, its query (null outside of a query) and its filters. Cleared after use,
  // since Spark asks once for each scan and may reference the index for long.
  private Found found;
  private final String preparedIn;
  private final Set preparedFor;

  public DeltaplaneFileIndex(
      BiFunction python, SparkContext context, String name, Seq roots, StructType partitions, boolean pinned) {
    this.python = python;
    this.context = context;
    this.name = name;
    this.roots = roots;
    this.partitions = partitions;
    this.pinned = pinned;
    this.plans = new ArrayDeque();
    this.kept = new Kept();
    this.prepared = false;
    this.sizeInBytes = -1;
    this.preparedIn = null;
    this.preparedFor = null;
  }

  // The index of one scan whose files the optimizer has requested. It equals the index that it was
  // copied from, so that Spark shares the work of scans with equal filters, which have the same
  // files.
  private DeltaplaneFileIndex(DeltaplaneFileIndex of, Found found, String preparedIn, Set preparedFor) {
    this.python = of.python;
    this.context = of.context;
    this.name = of.name;
    this.roots = of.roots;
    this.partitions = of.partitions;
    this.pinned = of.pinned;
    this.plans = of.plans;
    this.kept = of.kept;
    this.prepared = true;
    this.sizeInBytes = found.sizeInBytes;
    this.found = found;
    this.preparedIn = preparedIn;
    this.preparedFor = preparedFor;
  }

  public boolean isPinned() {
    return pinned;
  }

  // Whether the table's version has changed since the last call; true if that can't be determined.
  public boolean hasChanged() {
    try {
      return "1".equals(answer(question("changed", null, null, Collections.emptyList()), null));
    } catch (Exception e) {
      return true;
    }
  }

  public boolean isPrepared() {
    return prepared;
  }

  // The optimizer's index of a scan with these filters, which knows its files; null if Python gave
  // no answer.
  public DeltaplaneFileIndex prepare(Seq filters) {
    SQLConf conf = SQLConf.get();
    boolean counts = conf.cboEnabled() || conf.planStatsEnabled();
    String query = query();
    // Outside of a query, the planned version may differ from the version that is read later.
    String kind = !counts ? "prepare" : pinned || query != null ? "prepare with statistics" : "prepare with rows";
    List texts = texts(filters);
    Found found = ask(kind, query, texts, counts ? filters : null);
    return found == null ? null : new DeltaplaneFileIndex(this, found, query, new HashSet(texts));
  }

  // Python's answer to the optimizer's question.
  public synchronized Found found() {
    return found;
  }

  // The files that can hold a matching row, by partition. Partition filters are applied exactly,
  // since Spark doesn't apply them again; it applies the other filters to the rows.
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) {
    List texts = texts(partitionFilters);
    texts.addAll(texts(dataFilters));
    Found of = taken(new HashSet(texts));
    if (of == null) of = ask("list", query(), texts, null);
    PartitionDirectory[] directories = of.directories();
    if (!partitionFilters.isEmpty()) directories = matching(directories, partitionFilters);
    String[] plan = {
      of.version, String.valueOf(texts.size()), of.understood, of.files, String.valueOf(directories.length),
      of.byJob ? "1" : ""
    };
    remember(String.join(" ", plan));
    return Scala.seqOf(directories);
  }

  public String[] inputFiles() {
    String said = (String) answer(question("files", query(), null, Collections.emptyList()), null);
    return said.isEmpty() ? new String[0] : said.split("\0");
  }

  public long sizeInBytes() {
    if (sizeInBytes >= 0) return sizeInBytes;
    String said = (String) answer(question("size", query(), null, Collections.emptyList()), null);
    long size = Long.parseLong(said);
    if (pinned) sizeInBytes = size;
    return size;
  }

  // The last answers to `listFiles`, one line each.
  public String plans() {
    synchronized (plans) {
      return String.join("\n", plans);
    }
  }

  public Seq rootPaths() {
    return roots;
  }

  // A pinned version never changes, a live one is looked up for each query.
  public void refresh() {}

  public StructType partitionSchema() {
    return partitions;
  }

  public Option metadataOpsTimeNs() {
    return Option.empty();
  }

  public String toString() {
    return name;
  }

  public int hashCode() {
    return name.hashCode();
  }

  public boolean equals(Object other) {
    return other instanceof DeltaplaneFileIndex && name.equals(((DeltaplaneFileIndex) other).name);
  }

  private String query() {
    return context.getLocalProperty(QUERY);
  }

  private Found ask(String kind, String query, List texts, Seq filters) {
    String of = kind + "\0" + SQLConf.get().sessionLocalTimeZone() + "\0" + String.join("\0", texts);
    Found known = kept.get(of);
    if (known != null && pinned) return known;
    byte[] answer = (byte[]) answer(question(kind, query, known, texts), filters);
    if (answer == null) return null;
    if (answer.length == 0) return known;
    Found found = new Found(answer);
    kept.put(of, found);
    return found;
  }

  private Object answer(String question, Seq filters) {
    return Refused.unless(python.apply(question, filters));
  }

  private static String question(String kind, String query, Found known, List texts) {
    List parts = new ArrayList();
    parts.add(kind);
    parts.add(query == null ? "" : query);
    parts.add(SQLConf.get().sessionLocalTimeZone());
    parts.add(known == null ? "" : known.version);
    parts.addAll(texts);
    return String.join("\0", parts);
  }

  // The optimizer's answer, unless Spark asks for other files: those of another query's version, or
  // of other filters.
  private synchronized Found taken(Set texts) {
    Found of = found;
    found = null;
    if (of == null || !preparedFor.equals(texts)) return null;
    return pinned || (preparedIn != null && preparedIn.equals(query())) ? of : null;
  }

  private void remember(String plan) {
    synchronized (plans) {
      plans.addLast(plan);
      if (plans.size() > PLANS) plans.removeFirst();
    }
  }

  // Catalyst's filters as JSON. Filters that Catalyst can't serialize don't prune; neither do
  // filters with a subquery, whose JSON would have its whole plan (tens of milliseconds for the
  // other side of a join), nor filters on `_metadata`, whose fields may have the names of table
  // columns.
  private static List texts(Seq filters) {
    List all = new ArrayList();
    for (Iterator i = Scala.iterator(filters); i.hasNext(); ) {
      Expression one = (Expression) i.next();
      if (one.containsPattern(TreePattern.PLAN_EXPRESSION()) || readsMetadata(one)) continue;
      try {
        all.add(listed(one).toJSON());
      } catch (Exception e) {
      }
    }
    return all;
  }

  // `IN` with more than ten values is a set, whose JSON would lack the values: as a list.
  private static Expression listed(Expression filter) {
    if (!filter.containsPattern(TreePattern.INSET())) return filter;
    if (filter instanceof InSet) {
      InSet in = (InSet) filter;
      if (in.hset().size() > LISTED_VALUES) return filter;
      List values = new ArrayList();
      for (scala.collection.Iterator i = in.hset().iterator(); i.hasNext(); ) {
        values.add(new Literal(i.next(), in.child().dataType()));
      }
      return new In(in.child(), Scala.seq(values));
    }
    List children = new ArrayList();
    for (Iterator i = Scala.iterator(filter.children()); i.hasNext(); ) {
      children.add(listed((Expression) i.next()));
    }
    return (Expression) filter.withNewChildren(Scala.seq(children));
  }

  private static boolean readsMetadata(Expression filter) {
    for (Iterator i = Scala.iterator(filter.references().toSeq()); i.hasNext(); ) {
      Metadata of = ((Attribute) i.next()).metadata();
      if (of.contains(FileSourceMetadataAttribute$.MODULE$.FILE_SOURCE_METADATA_COL_ATTR_KEY())) return true;
    }
    return false;
  }

  // The partitions whose values satisfy every filter, evaluated by Spark.
  private PartitionDirectory[] matching(PartitionDirectory[] directories, Seq filters) {
    Iterator each = Scala.iterator(filters);
    Expression all = (Expression) each.next();
    while (each.hasNext()) all = new And(all, (Expression) each.next());
    Map byName = new HashMap();
    for (Iterator i = Scala.iterator(all.references().toSeq()); i.hasNext(); ) {
      Attribute one = (Attribute) i.next();
      byName.put(one.name(), one);
    }
    List row = new ArrayList();
    Seq fields = DataTypeUtils$.MODULE$.toAttributes(partitions);
    for (Iterator i = Scala.iterator(fields); i.hasNext(); ) {
      Attribute one = (Attribute) i.next();
      row.add(byName.containsKey(one.name()) ? byName.get(one.name()) : one);
    }
    BasePredicate predicate = Predicate$.MODULE$.create(all, Scala.seq(row));
    List kept = new ArrayList();
    for (int d = 0; d < directories.length; d++) {
      if (predicate.eval(directories[d].values())) kept.add(directories[d]);
    }
    return (PartitionDirectory[]) kept.toArray(new PartitionDirectory[0]);
  }
}
