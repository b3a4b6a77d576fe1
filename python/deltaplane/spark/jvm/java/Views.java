// A temporary view that selects unchanged columns of one Delta table, under new names. A view that
// does more is not such a view.
package deltaplane;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.View;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;

public final class Views {
  private Views() {}

  // Returns the parts of the table's name (or only its path), an empty text, and pairs of the
  // view's and the table's column names; null if the view's rows aren't rows of one table.
  public static String[] plain(Dataset view) {
    LogicalPlan plan = view.queryExecution().analyzed();
    ArrayList shown = new ArrayList();
    for (Iterator i = Scala.iterator(plan.output()); i.hasNext(); ) shown.add(i.next());
    // Maps the expression id of an attribute to the attribute below it.
    HashMap below = new HashMap();
    ArrayList found = new ArrayList();
    while (true) {
      if (plan instanceof SubqueryAlias) {
        SubqueryAlias alias = (SubqueryAlias) plan;
        if (alias.identifier().qualifier().size() == 2 && alias.identifier().qualifier().head().equals("spark_catalog")) {
          for (Iterator i = Scala.iterator(alias.identifier().qualifier()); i.hasNext(); ) found.add(i.next());
          found.add(alias.identifier().name());
          break;
        }
        plan = alias.child();
      } else if (plan instanceof View) {
        plan = ((View) plan).child();
      } else if (plan instanceof Project) {
        for (Iterator i = Scala.iterator(((Project) plan).projectList()); i.hasNext(); ) {
          Expression one = (Expression) i.next();
          Expression of = one instanceof Alias ? ((Alias) one).child() : one;
          if (of instanceof Cast && ((Cast) of).child().dataType().equals(of.dataType())) of = ((Cast) of).child();
          if (!(of instanceof Attribute)) return null;
          below.put(Long.valueOf(((NamedExpression) one).exprId().id()), of);
        }
        plan = ((Project) plan).child();
      } else if (plan instanceof LogicalRelation && ((LogicalRelation) plan).relation() instanceof HadoopFsRelation) {
        Object index = ((HadoopFsRelation) ((LogicalRelation) plan).relation()).location();
        if (!(index instanceof DeltaplaneFileIndex)) return null;
        found.add(((DeltaplaneFileIndex) index).rootPaths().head().toString());
        break;
      } else return null;
    }
    found.add("");
    for (int n = 0; n < shown.size(); n++) {
      Attribute of = (Attribute) shown.get(n);
      String name = of.name();
      while (true) {
        Attribute next = (Attribute) below.get(Long.valueOf(of.exprId().id()));
        if (next == null || next.exprId().id() == of.exprId().id()) break;
        of = next;
      }
      found.add(name);
      found.add(of.name());
    }
    return (String[]) found.toArray(new String[0]);
  }

  // Whether a frame reads files by a deltaplane index.
  public static boolean reads(Dataset frame) {
    for (Iterator i = Scala.iterator(frame.queryExecution().analyzed().collectLeaves()); i.hasNext(); ) {
      Object leaf = i.next();
      if (leaf instanceof LogicalRelation && ((LogicalRelation) leaf).relation() instanceof HadoopFsRelation)
        if (((HadoopFsRelation) ((LogicalRelation) leaf).relation()).location() instanceof DeltaplaneFileIndex) return true;
    }
    return false;
  }
}
