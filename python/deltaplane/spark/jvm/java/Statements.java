// The names in a statement, by Spark's own parser: its plan class, the table that it concerns, and
// the relations that it reads, with their positions. One call per statement: Python would need
// hundreds.
package deltaplane;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.util.Utils;
import scala.Option;
import scala.Product;

public final class Statements {
  private static final String WRITES = "__required_write_privileges__";

  // Plans that name a command's target; views are targets, too.
  private static final List ABOUT = Arrays.asList(new Object[] {"UnresolvedTableOrView"});
  private static final List TARGETS =
      Arrays.asList(new Object[] {"UnresolvedTable", "UnresolvedIdentifier", "UnresolvedView"});

  private final ArrayList found = new ArrayList();

  private Statements() {}

  // Returns lines whose parts are separated by NULs: first the plan's class and whether it is a
  // command; then, for each name, "target" or "reads", its position, and its parts. Names of CTEs
  // are left out.
  public static String[] read(SparkSession session, String text) throws Exception {
    LogicalPlan plan = session.sessionState().sqlParser().parsePlan(text);
    Statements made = new Statements();
    LogicalPlan of = plan;
    while (of instanceof UnresolvedWith) of = ((UnresolvedWith) of).child();
    String kind = Utils.getSimpleName(of.getClass());
    boolean command = of instanceof Command || kind.contains("Statement");
    // Before Spark 4.2 this command holds its names as identifiers, and has no children.
    boolean like = kind.equals("CreateTableLikeCommand");
    made.found.add("plan\0" + (like ? "CreateTableLike" : kind) + "\0" + (command ? "command" : ""));
    for (int i = 0; like && i < 2; i++) made.name("target", of, ((TableIdentifier) of.productElement(i)).nameParts());
    made.plan(plan, new HashSet());
    return (String[]) made.found.toArray(new String[0]);
  }

  // Returns the same lines for an expression: the names that its subqueries read.
  public static String[] readExpression(SparkSession session, String text) throws Exception {
    Statements made = new Statements();
    made.expression(session.sessionState().sqlParser().parseExpression(text), new HashSet());
    return (String[]) made.found.toArray(new String[0]);
  }

  private void plan(LogicalPlan plan, Set named) {
    if (plan instanceof UnresolvedWith) {
      UnresolvedWith with = (UnresolvedWith) plan;
      Set all = new HashSet(named);
      for (Iterator i = Scala.iterator(with.cteRelations()); i.hasNext(); ) {
        Product one = (Product) i.next();
        String name = ((String) one.productElement(0)).toLowerCase(Locale.ROOT);
        Set inside = all;
        if (AnalyzerRules.allowsRecursion(with)) {
          inside = new HashSet(all);
          inside.add(name);
        }
        plan((LogicalPlan) one.productElement(1), inside);
        all.add(name);
      }
      plan(with.child(), all);
      return;
    }
    if (plan instanceof UnresolvedRelation) {
      UnresolvedRelation relation = (UnresolvedRelation) plan;
      boolean target = relation.options().containsKey(WRITES);
      boolean one = relation.multipartIdentifier().size() == 1;
      if (!target && one && named.contains(((String) relation.multipartIdentifier().head()).toLowerCase(Locale.ROOT)))
        return;
      name(target ? "target" : "reads", plan, relation.multipartIdentifier());
      return;
    }
    String kind = Utils.getSimpleName(plan.getClass());
    if (kind.startsWith("Unresolved") && plan.children().isEmpty() && plan.productArity() > 0) {
      Object first = plan.productElement(0);
      boolean names = first instanceof scala.collection.Seq && isNames((scala.collection.Seq) first);
      if (names && ABOUT.contains(kind)) name("about", plan, (scala.collection.Seq) first);
      else if (names && TARGETS.contains(kind)) name("target", plan, (scala.collection.Seq) first);
      else if (names && kind.equals("UnresolvedTableValuedFunction")) name("calls", plan, (scala.collection.Seq) first);
    }
    // Parts of a plan that aren't its children: the written table, and the queries of commands.
    for (int i = 0; i < plan.productArity(); i++) parts(plan.productElement(i), plan, named);
    for (Iterator i = Scala.iterator(plan.children()); i.hasNext(); ) plan((LogicalPlan) i.next(), named);
  }

  private void parts(Object part, LogicalPlan of, Set named) {
    if (part instanceof LogicalPlan) {
      if (!of.children().contains(part)) plan((LogicalPlan) part, named);
    } else if (part instanceof Expression) {
      expression((Expression) part, named);
    } else if (part instanceof Option) {
      if (((Option) part).isDefined()) parts(((Option) part).get(), of, named);
    } else if (part instanceof scala.collection.Seq) {
      for (Iterator i = Scala.iterator((scala.collection.Seq) part); i.hasNext(); ) parts(i.next(), of, named);
    }
  }

  private void expression(Expression one, Set named) {
    if (one instanceof SubqueryExpression) plan((LogicalPlan) (Object) ((SubqueryExpression) one).plan(), named);
    for (Iterator i = Scala.iterator(one.children()); i.hasNext(); ) expression((Expression) i.next(), named);
  }

  private void name(String what, TreeNode node, scala.collection.Seq parts) {
    Option start = node.origin().startIndex();
    StringBuilder line = new StringBuilder(what).append('\0').append(start.isDefined() ? start.get() : "-1");
    for (Iterator i = Scala.iterator(parts); i.hasNext(); ) line.append('\0').append(i.next());
    found.add(line.toString());
  }

  private static boolean isNames(scala.collection.Seq parts) {
    for (Iterator i = Scala.iterator(parts); i.hasNext(); ) if (!(i.next() instanceof String)) return false;
    return !parts.isEmpty();
  }
}
