// Puts a rule into the analyzer of a session, and finds it there, for Spark 4. The class of the same
// name for Spark 3.5 has the same methods.
package deltaplane;

import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec$;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.Product;

public final class AnalyzerRules {
  // The phases in which the rule runs: timestamps may be function calls, which are resolved in the
  // later phase.
  private static final String[] PHASES = {"hintResolutionRules", "extendedResolutionRules"};

  private AnalyzerRules() {}

  // Puts a rule before the session's other ones, in the place of the one of its class; null only
  // removes that.
  public static void set(SparkSession session, Class kind, Rule rule) throws Exception {
    Analyzer analyzer = session.sessionState().analyzer();
    for (int n = 0; n < PHASES.length; n++) {
      Field field = field(analyzer, PHASES[n]);
      ArrayList rules = new ArrayList();
      if (rule != null) rules.add(rule);
      for (Iterator i = Scala.iterator(field.get(analyzer)); i.hasNext(); ) {
        Object other = i.next();
        if (!kind.isInstance(other)) rules.add(other);
      }
      field.set(analyzer, Scala.seq(rules));
    }
  }

  public static boolean has(SparkSession session, Class kind) throws Exception {
    Analyzer analyzer = session.sessionState().analyzer();
    for (Iterator i = Scala.iterator(field(analyzer, PHASES[0]).get(analyzer)); i.hasNext(); )
      if (kind.isInstance(i.next())) return true;
    return false;
  }

  // The moment of a time travel in microseconds.
  public static Object moment(RelationTimeTravel travel, SparkSession session) {
    String zone = session.sessionState().conf().sessionLocalTimeZone();
    Object moment = TimeTravelSpec$.MODULE$.create(travel.timestamp(), Option.empty(), zone).get();
    return ((Product) moment).productElement(0);
  }

  public static boolean allowsRecursion(UnresolvedWith with) {
    return with.allowRecursion();
  }

  private static Field field(Analyzer analyzer, String name) throws Exception {
    Field field = analyzer.getClass().getDeclaredField(name);
    field.setAccessible(true);
    return field;
  }
}
