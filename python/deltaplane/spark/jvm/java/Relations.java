// A rule of a session's analyzer: replaces relations that name a Delta table by its rows, which a
// Python object creates. It runs after CTEs are resolved and before Spark looks up other names,
// also for the text of views and functions.
package deltaplane;

import java.net.URI;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.Locale;
import java.util.Map;
import java.util.function.BiFunction;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext$;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.Utils;
import scala.Option;
import scala.collection.immutable.Seq;

public final class Relations extends Rule {
  private static final String WRITES = "__required_write_privileges__";

  private static final ThreadLocal SCRIPTS = new ThreadLocal();

  private final BiFunction python;
  private final SparkSession session;

  private Relations(BiFunction python, SparkSession session) {
    this.python = python;
    this.session = session;
  }

  // Installs the rule in a session's analyzer.
  public static void install(BiFunction python, SparkSession session) throws Exception {
    AnalyzerRules.set(session, Relations.class, new Relations(python, session));
  }

  public static void remove(SparkSession session) throws Exception {
    AnalyzerRules.set(session, Relations.class, null);
  }

  public static boolean isInstalled(SparkSession session) throws Exception {
    return AnalyzerRules.has(session, Relations.class);
  }

  public TreeNode apply(TreeNode plan) {
    String statement = SCRIPTS.get() == null || !(plan instanceof Command || isStatement(plan)) ? null : text(plan);
    if (statement != null) {
      Object answer = Refused.unless(python.apply("statement\0" + statement, session));
      if (answer != null) return rows(answer);
    }
    return resolved((LogicalPlan) plan);
  }

  private static boolean isStatement(TreeNode plan) {
    String kind = Utils.getSimpleName(plan.getClass());
    return kind.equals("InsertIntoStatement") || kind.equals("UnresolvedExecuteImmediate");
  }

  // A statement's text within its script: up to the semicolon after the last word whose position
  // the plan has.
  private static String text(TreeNode plan) {
    if (plan.origin().sqlText().isEmpty() || plan.origin().startIndex().isEmpty()) return null;
    String all = (String) plan.origin().sqlText().get();
    int[] extent = new int[] {all.length(), 0};
    extend(extent, plan, all);
    int begin = all.offsetByCodePoints(0, extent[0]);
    int end = all.offsetByCodePoints(0, Math.min(extent[1] + 1, all.codePointCount(0, all.length())));
    while (end < all.length() && all.charAt(end) != ';') end++;
    return all.substring(begin, end).trim();
  }

  private static void extend(int[] extent, Object part, String all) {
    if (part instanceof TreeNode) {
      TreeNode node = (TreeNode) part;
      boolean same = node.origin().sqlText().isDefined() && node.origin().sqlText().get().equals(all);
      if (same && node.origin().startIndex().isDefined() && node.origin().stopIndex().isDefined()) {
        extent[0] = Math.min(extent[0], ((Number) node.origin().startIndex().get()).intValue());
        extent[1] = Math.max(extent[1], ((Number) node.origin().stopIndex().get()).intValue());
      }
      for (int i = 0; i < node.productArity(); i++) extend(extent, node.productElement(i), all);
    } else if (part instanceof Option) {
      if (((Option) part).isDefined()) extend(extent, ((Option) part).get(), all);
    } else if (part instanceof scala.collection.Seq) {
      for (Iterator i = Scala.iterator(part); i.hasNext(); ) extend(extent, i.next(), all);
    }
  }

  // Whether this thread runs a script or EXECUTE IMMEDIATE, whose statements on Delta tables Python
  // executes.
  public static void script(boolean runs) {
    if (runs) SCRIPTS.set(Boolean.TRUE);
    else SCRIPTS.remove();
  }

  private LogicalPlan resolved(LogicalPlan plan) {
    if (plan.analyzed()) return plan;
    LogicalPlan instead = asked(plan);
    if (instead != null) return instead;
    ArrayList children = new ArrayList();
    boolean same = true;
    for (Iterator i = Scala.iterator(plan.children()); i.hasNext(); ) {
      LogicalPlan child = (LogicalPlan) i.next();
      LogicalPlan made = resolved(child);
      same = same && made == child;
      children.add(made);
    }
    return same ? plan : (LogicalPlan) plan.withNewChildren(Scala.seq(children));
  }

  private LogicalPlan asked(LogicalPlan plan) {
    if (Utils.getSimpleName(plan.getClass()).equals("UnresolvedTableValuedFunction")) return changes(plan);
    RelationTimeTravel travel = plan instanceof RelationTimeTravel ? (RelationTimeTravel) plan : null;
    LogicalPlan named = travel == null ? plan : travel.relation();
    if (!(named instanceof UnresolvedRelation)) return null;
    UnresolvedRelation relation = (UnresolvedRelation) named;
    if (travel != null && travel.timestamp().isDefined() && !((Expression) travel.timestamp().get()).resolved()) return travel;
    if (relation.options().containsKey(WRITES)) return null;
    ArrayList parts = new ArrayList();
    for (Iterator i = Scala.iterator(relation.multipartIdentifier()); i.hasNext(); ) parts.add(i.next());
    String location = held(parts);
    if (location == null) {
      if (parts.size() != 2 || !isFormat((String) parts.get(0))) return null;
      location = (String) parts.get(1);
      parts.add(0, "spark_catalog");
    }
    StringBuilder question = new StringBuilder(relation.isStreaming() ? "stream" : "rows").append('\0');
    question.append(location).append('\0').append(travel == null ? "" : at(travel));
    for (Iterator i = relation.options().asCaseSensitiveMap().entrySet().iterator(); i.hasNext(); ) {
      Map.Entry option = (Map.Entry) i.next();
      question.append('\0').append(option.getKey()).append('\0').append(option.getValue());
    }
    Object answer = Refused.unless(python.apply(question.toString(), session));
    return named(answer, (String[]) parts.toArray(new String[0]));
  }

  // The change feed that a call of `table_changes` or `table_changes_by_path` names; null for other
  // functions.
  private LogicalPlan changes(LogicalPlan call) {
    Object name = call.productElement(0);
    if (!(name instanceof scala.collection.Seq)) return null;
    String last = String.valueOf(((scala.collection.Seq) name).last()).toLowerCase(Locale.ROOT);
    if (!last.equals("table_changes") && !last.equals("table_changes_by_path")) return null;
    String text = text(call);
    return text == null ? null : rows(Refused.unless(python.apply("changes\0" + text, session)));
  }

  // The location of the Delta table that Spark's own catalog has under a name, which is completed, or
  // a name in one of the session's catalogs as a location; null if it is neither. Names within a view are resolved in the view's database.
  private String held(ArrayList parts) {
    SessionCatalog catalog = session.sessionState().catalog();
    Seq ofView = AnalysisContext$.MODULE$.get().catalogAndNamespace();
    String database = catalog.getCurrentDatabase();
    String current = session.sessionState().catalogManager().currentCatalog().name();
    boolean inView = ofView.size() > 1;
    if (inView) {
      current = (String) ofView.head();
      database = (String) ofView.last();
    } else if (parts.size() == 1 && catalog.isTempView(Scala.seq(parts))) return null;
    if (inCatalog(parts, inView)) return "uc://" + parts.get(0) + '.' + parts.get(1) + '.' + parts.get(2);
    int size = parts.size();
    if (size > 3 || !(size == 3 ? (String) parts.get(0) : current).equalsIgnoreCase("spark_catalog")) return null;
    if (size > 1) database = (String) parts.get(size - 2);
    String name = (String) parts.get(size - 1);
    TableIdentifier identifier = new TableIdentifier(name, Option.apply(database));
    CatalogTable table;
    try {
      if (!catalog.tableExists(identifier)) return null;
      table = catalog.getTableRawMetadata(identifier);
    } catch (Exception e) {
      // The table was dropped meanwhile, or the name isn't the catalog's.
      return null;
    }
    if (table.provider().isEmpty() || !isFormat((String) table.provider().get())) return null;
    if (table.storage().locationUri().isEmpty()) return null;
    parts.clear();
    parts.add("spark_catalog");
    parts.add(database);
    parts.add(name);
    return new Path((URI) table.storage().locationUri().get()).toString();
  }

  // Completes a name of one of the session's catalogs, which its settings list; false for other
  // names. Within a view only full names are theirs.
  private boolean inCatalog(ArrayList parts, boolean inView) {
    String[] names = session.conf().get("spark.deltaplane.catalogs", "").split(",");
    int size = parts.size();
    if (size == 3) {
      for (int i = 0; i < names.length; i++) {
        if (!names[i].equalsIgnoreCase((String) parts.get(0))) continue;
        parts.set(0, names[i]);
        return true;
      }
      return false;
    }
    String[] current = session.conf().get("spark.deltaplane.currentSchema", "").split("\\.");
    if (inView || size > 3 || current.length != 2) return false;
    if (size == 2 && (isFormat((String) parts.get(0)) || "global_temp".equalsIgnoreCase((String) parts.get(0)))) return false;
    if (size == 1) parts.add(0, current[1]);
    parts.add(0, current[0]);
    return true;
  }

  private String at(RelationTimeTravel travel) {
    if (travel.version().isDefined()) return "version " + travel.version().get();
    return "micros " + AnalyzerRules.moment(travel, session);
  }

  private static boolean isFormat(String name) {
    return name.equalsIgnoreCase("delta") || name.equalsIgnoreCase("deltaplane");
  }

  private static LogicalPlan rows(Object answer) {
    return ((Dataset) answer).queryExecution().analyzed();
  }

  // The rows under the parts of a name, which expressions may use as qualifiers of columns.
  public static LogicalPlan named(Object frame, String[] parts) {
    ArrayList qualifier = new ArrayList();
    for (int i = 0; i + 1 < parts.length; i++) qualifier.add(parts[i]);
    return new SubqueryAlias(new AliasIdentifier(parts[parts.length - 1], Scala.seq(qualifier)), rows(frame));
  }
}
