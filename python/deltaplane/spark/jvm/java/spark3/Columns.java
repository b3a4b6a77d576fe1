// Columns of the public API as Catalyst's expressions, and the reverse, for Spark 3.5, whose columns
// hold an expression. The class of the same name for Spark 4 has the same methods.
package deltaplane;

import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.util.Utils;
import scala.collection.Seq;

public final class Columns {
  private Columns() {}

  public static Column column(Expression expression) {
    return new Column(expression);
  }

  public static Expression expression(Column column) {
    return column.expr();
  }

  // The expression before Spark resolves it.
  public static Expression unresolved(Column column) {
    return column.expr();
  }

  public static String sql(Column column) {
    return column.expr().sql();
  }

  // The kind of a column's expression, such as UnresolvedAttribute.
  public static String kind(Column column) {
    return Utils.getSimpleName(column.expr().getClass());
  }

  // The boolean result of a static method.
  public static Expression call(Class owner, String method, Seq arguments) {
    return new StaticInvoke(
        owner, DataTypes.BooleanType, method, arguments, Scala.seq(new java.util.ArrayList()), true, true, true);
  }
}
