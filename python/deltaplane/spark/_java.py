"""Two small classes in Java's text, which the compiler that Spark ships makes of it in the running JVM.

They are what Python can't be for Spark, whose objects there implement interfaces only. They know no table. Compiled by
`deltaplane.spark._internals`.
"""

from __future__ import annotations

__all__ = ["COMPILER", "FILE_INDEX", "RULE", "SOURCES"]

COMPILER = "org.codehaus.janino.SimpleCompiler"

# A file index by whose name plans show it; what is asked of it goes to Python's.
FILE_INDEX = "deltaplane.DeltaplaneFileIndex"
# A rule of the optimiser: hands each scan of such an index, with its filters, to Python's index
# (`java.util.function.BiFunction`), which gives the relation that knows its files, or null. py4j would make other numbers
# of Scala's, so what needs some is made there too.
RULE = "deltaplane.PrepareScans"

_INDEX_SOURCE = """
package deltaplane;
import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;
public final class DeltaplaneFileIndex implements FileIndex {
  public final FileIndex of;
  public final boolean prepared;
  private final String name;
  private final Seq roots;
  private final StructType partitions;
  public DeltaplaneFileIndex(FileIndex of, String name, Seq roots, StructType partitions, boolean prepared) {
    this.of = of; this.name = name; this.roots = roots; this.partitions = partitions; this.prepared = prepared;
  }
  public Seq rootPaths() { return roots; }
  public Seq listFiles(Seq partitionFilters, Seq dataFilters) { return of.listFiles(partitionFilters, dataFilters); }
  public String[] inputFiles() { return of.inputFiles(); }
  public void refresh() { }
  public long sizeInBytes() { return of.sizeInBytes(); }
  public StructType partitionSchema() { return partitions; }
  public Option metadataOpsTimeNs() { return Option.empty(); }
  public String toString() { return name; }
  public int hashCode() { return name.hashCode(); }
  public boolean equals(Object other) {
    return other instanceof DeltaplaneFileIndex && name.equals(((DeltaplaneFileIndex) other).name);
  }
}
"""
_RULE_SOURCE = """
package deltaplane;
import java.io.ByteArrayInputStream;
import java.io.ObjectInputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.function.BiFunction;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.catalyst.trees.TreePattern;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import scala.Option;
import scala.Tuple3;
import scala.collection.Seq;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.jdk.javaapi.CollectionConverters;
import scala.math.BigInt;
public final class PrepareScans extends Rule {
  public CatalogStatistics statistics(long sizeInBytes, long rows, String columns) {
    Option counted = rows < 0 ? Option.empty() : Option.apply(BigInt.apply(rows));
    return new CatalogStatistics(BigInt.apply(sizeInBytes), counted, ofColumns(columns));
  }
  private static Map ofColumns(String columns) {
    Map all = (Map) Map$.MODULE$.empty();
    String[] said = columns.isEmpty() ? new String[0] : columns.split("\\0", -1);
    for (int i = 0; i < said.length; i += 5)
      all = (Map) all.updated(said[i], new CatalogColumnStat(
        number(said[i + 1]), text(said[i + 2]), text(said[i + 3]), number(said[i + 4]),
        Option.empty(), Option.empty(), Option.empty(), CatalogColumnStat.VERSION()));
    return all;
  }
  private static Option text(String said) { return said.isEmpty() ? Option.empty() : Option.apply(said); }
  private static Option number(String said) {
    return said.isEmpty() ? Option.empty() : Option.apply(BigInt.apply(said));
  }
  public String texts(Seq filters) {
    StringBuilder all = new StringBuilder();
    for (Iterator i = CollectionConverters.asJava(filters).iterator(); i.hasNext();) {
      Expression one = (Expression) i.next();
      if (one.containsPattern(TreePattern.PLAN_EXPRESSION())) continue;
      try {
        String said = one.toJSON();
        if (all.length() > 0) all.append('\\0');
        all.append(said);
      } catch (Exception e) { }
    }
    return all.toString();
  }
  public ArrayList directories(byte[] blob) throws Exception {
    Object array = ((Object[]) new ObjectInputStream(new ByteArrayInputStream(blob)).readObject())[1];
    return new ArrayList(Arrays.asList((Object[]) array));
  }
  public LogicalPlan rebalanced(scala.collection.immutable.Seq columns, LogicalPlan plan, long bytes) {
    return new RebalancePartitions(columns, plan, Option.empty(), Option.apply(Long.valueOf(bytes)));
  }
  public TreeNode apply(TreeNode plan) { return holdsOne(plan) ? prepared((LogicalPlan) plan) : plan; }
  private static DeltaplaneFileIndex indexOf(Object leaf) {
    if (!(leaf instanceof LogicalRelation)) return null;
    LogicalRelation relation = (LogicalRelation) leaf;
    if (relation.isStreaming() || !(relation.relation() instanceof HadoopFsRelation)) return null;
    Object index = ((HadoopFsRelation) relation.relation()).location();
    if (!(index instanceof DeltaplaneFileIndex) || ((DeltaplaneFileIndex) index).prepared) return null;
    return (DeltaplaneFileIndex) index;
  }
  private static boolean holdsOne(TreeNode plan) {
    for (Iterator i = CollectionConverters.asJava(plan.collectLeaves()).iterator(); i.hasNext();)
      if (indexOf(i.next()) != null) return true;
    return false;
  }
  private LogicalPlan prepared(LogicalPlan plan) {
    if (plan instanceof Project || plan instanceof Filter || plan instanceof LogicalRelation) {
      Option found = PhysicalOperation.unapply(plan);
      if (found.isDefined()) {
        Tuple3 parts = (Tuple3) found.get();
        DeltaplaneFileIndex index = indexOf(parts._3());
        if (index != null) {
          Object instead = ((BiFunction) index.of).apply(parts._3(), parts._2());
          return instead == null ? plan : replaced(plan, parts._3(), (LogicalPlan) instead);
        }
      }
    }
    return over(plan, null, null);
  }
  private LogicalPlan replaced(LogicalPlan plan, Object leaf, LogicalPlan instead) {
    return plan == leaf ? instead : over(plan, leaf, instead);
  }
  private LogicalPlan over(LogicalPlan plan, Object leaf, LogicalPlan instead) {
    ArrayList children = new ArrayList();
    boolean same = true;
    for (Iterator i = CollectionConverters.asJava((Seq) plan.children()).iterator(); i.hasNext();) {
      LogicalPlan child = (LogicalPlan) i.next();
      LogicalPlan made = leaf == null ? prepared(child) : replaced(child, leaf, instead);
      same = same && made == child;
      children.add(made);
    }
    return same ? plan : (LogicalPlan) plan.withNewChildren(CollectionConverters.asScala(children).toList());
  }
}
"""

# Each may name those before it.
SOURCES = {FILE_INDEX: _INDEX_SOURCE, RULE: _RULE_SOURCE}
