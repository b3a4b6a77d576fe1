// A rule of the optimizer: gives each scan of a deltaplane file index an index with known files,
// and thereby the scan's size, name and statistics. Also creates objects of Scala classes whose
// constructors differ between versions of Spark.
package deltaplane;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogColumnStat;
import org.apache.spark.sql.catalyst.catalog.CatalogStatistics;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable$;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.planning.PhysicalOperation;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RebalancePartitions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.Tuple3;
import scala.collection.immutable.Map;
import scala.collection.immutable.Map$;
import scala.math.BigInt;

public final class PrepareScans extends Rule {
  // The constructor of a catalog table has more parameters in later versions of Spark; ours are its
  // first ones.
  private static final int GIVEN = 4;
  // Cached by class and name: a catalog table has about twenty parameters, and each scan creates
  // one.
  private static final ConcurrentHashMap METHODS = new ConcurrentHashMap();

  public PrepareScans() {
    // Fails early if the classes of this version of Spark differ.
    table("", new StructType(), new CatalogStatistics(BigInt.apply(0L), Option.empty(), ofColumns(new String[0])));
  }

  public LogicalPlan rebalanced(scala.collection.immutable.Seq columns, LogicalPlan plan, long bytes) {
    return new RebalancePartitions(columns, plan, Option.empty(), Option.apply(Long.valueOf(bytes)));
  }

  public TreeNode apply(TreeNode plan) {
    return holdsOne(plan) ? prepared((LogicalPlan) plan) : plan;
  }

  private static DeltaplaneFileIndex indexOf(Object leaf) {
    if (!(leaf instanceof LogicalRelation)) return null;
    LogicalRelation relation = (LogicalRelation) leaf;
    if (relation.isStreaming() || !(relation.relation() instanceof HadoopFsRelation)) return null;
    Object index = ((HadoopFsRelation) relation.relation()).location();
    if (!(index instanceof DeltaplaneFileIndex) || ((DeltaplaneFileIndex) index).isPrepared()) return null;
    return (DeltaplaneFileIndex) index;
  }

  private static boolean holdsOne(TreeNode plan) {
    for (Iterator i = Scala.iterator(plan.collectLeaves()); i.hasNext(); )
      if (indexOf(i.next()) != null) return true;
    return false;
  }

  private static LogicalPlan prepared(LogicalPlan plan) {
    if (plan instanceof Project || plan instanceof Filter || plan instanceof LogicalRelation) {
      Option of = PhysicalOperation.unapply(plan);
      if (of.isDefined()) {
        Tuple3 parts = (Tuple3) of.get();
        DeltaplaneFileIndex index = indexOf(parts._3());
        if (index != null) {
          DeltaplaneFileIndex prepared = index.prepare((scala.collection.immutable.Seq) parts._2());
          if (prepared == null) return plan;
          LogicalRelation leaf = (LogicalRelation) parts._3();
          return replaced(plan, leaf, scan(leaf, prepared));
        }
      }
    }
    return over(plan, null, null);
  }

  private static LogicalPlan replaced(LogicalPlan plan, Object leaf, LogicalPlan instead) {
    return plan == leaf ? instead : over(plan, leaf, instead);
  }

  private static LogicalPlan over(LogicalPlan plan, Object leaf, LogicalPlan instead) {
    ArrayList children = new ArrayList();
    boolean same = true;
    for (Iterator i = Scala.iterator(plan.children()); i.hasNext(); ) {
      LogicalPlan child = (LogicalPlan) i.next();
      LogicalPlan made = leaf == null ? prepared(child) : replaced(child, leaf, instead);
      same = same && made == child;
      children.add(made);
    }
    return same ? plan : (LogicalPlan) plan.withNewChildren(Scala.seq(children));
  }

  // A copy of a relation's scan with another index, and with a catalog table.
  private static LogicalPlan scan(LogicalRelation leaf, DeltaplaneFileIndex index) {
    Found found = index.found();
    Option rows = found.rows < 0 ? Option.empty() : Option.apply(BigInt.apply(found.rows));
    CatalogStatistics statistics =
        new CatalogStatistics(BigInt.apply(found.sizeInBytes), rows, ofColumns(found.columns));
    Object table = table(found.name, leaf.schema(), statistics);
    HadoopFsRelation of = (HadoopFsRelation) leaf.relation();
    HadoopFsRelation relation =
        new HadoopFsRelation(
            index, of.partitionSchema(), of.dataSchema(), of.bucketSpec(), of.fileFormat(), of.options(),
            of.sparkSession());
    Object scan = copied((Product) leaf, "relation", relation);
    return (LogicalPlan) copied((Product) scan, "catalogTable", Option.apply(table));
  }

  private static Object table(String name, StructType schema, CatalogStatistics statistics) {
    TableIdentifier identifier = new TableIdentifier(name, Option.apply("delta"));
    return copied((Product) entry(identifier, schema), "stats", Option.apply(statistics));
  }

  // An external table's entry of a catalog, with defaults in the other fields.
  public static Object entry(TableIdentifier name, StructType schema) {
    Object all = CatalogTable$.MODULE$;
    Method apply = widest(all, "apply");
    Object[] arguments = new Object[apply.getParameterCount()];
    arguments[0] = name;
    arguments[1] = CatalogTableType.EXTERNAL();
    arguments[2] = CatalogStorageFormat.empty();
    arguments[3] = schema;
    for (int i = GIVEN; i < arguments.length; i++)
      arguments[i] = called(all, widest(all, "apply$default$" + (i + 1)), new Object[0]);
    return called(all, apply, arguments);
  }

  // For each column: its name, number of distinct values, minimum, maximum and number of nulls;
  // empty texts if unknown.
  private static Map ofColumns(String[] said) {
    Map all = (Map) Map$.MODULE$.empty();
    for (int i = 0; i < said.length; i += 5)
      all = (Map) all.updated(said[i], new CatalogColumnStat(
        number(said[i + 1]), text(said[i + 2]), text(said[i + 3]), number(said[i + 4]),
        Option.empty(), Option.empty(), Option.empty(), CatalogColumnStat.VERSION()));
    return all;
  }

  private static Option text(String said) {
    return said.isEmpty() ? Option.empty() : Option.apply(said);
  }

  private static Option number(String said) {
    return said.isEmpty() ? Option.empty() : Option.apply(BigInt.apply(said));
  }

  // A copy of a case class with one field replaced; versions of Spark differ in the other fields.
  private static Object copied(Product of, String field, Object value) {
    Object[] fields = new Object[of.productArity()];
    for (int i = 0; i < fields.length; i++)
      fields[i] = Scala.fieldName(of, i).equals(field) ? value : of.productElement(i);
    return called(of, widest(of, "copy"), fields);
  }

  private static Method widest(Object of, String name) {
    String key = of.getClass().getName() + " " + name;
    Method found = (Method) METHODS.get(key);
    if (found != null) return found;
    Method[] all = of.getClass().getMethods();
    for (int i = 0; i < all.length; i++)
      if (all[i].getName().equals(name)
          && (found == null || all[i].getParameterCount() > found.getParameterCount())) found = all[i];
    if (found == null) throw new IllegalStateException("Spark's " + of.getClass().getName() + " has no method " + name);
    METHODS.put(key, found);
    return found;
  }

  private static Object called(Object of, Method method, Object[] arguments) {
    try {
      return method.invoke(of, arguments);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException(e);
    } catch (InvocationTargetException e) {
      throw new IllegalStateException(e.getCause());
    }
  }
}
