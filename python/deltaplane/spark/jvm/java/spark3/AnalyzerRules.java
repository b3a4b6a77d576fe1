// Puts a rule into the analyzer of a session, and finds it there, for Spark 3.5. The class of the
// same name for Spark 4 has the same methods. Spark 3.5 has no list of rules that run before it
// looks up names, so that the session gets an analyzer with such a list, which otherwise has the
// rules of the one that it replaces.
package deltaplane;

import java.lang.reflect.Constructor;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Iterator;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec$;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedWith;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.rules.RuleExecutor;
import org.apache.spark.sql.internal.SessionState;
import scala.Option;
import scala.Product;
import scala.collection.Seq;

public final class AnalyzerRules extends Analyzer {
  // The phase before Spark looks up names.
  private static final String EARLY = "Hints";

  private final Analyzer other;
  private final Rule rule;

  private AnalyzerRules(Analyzer other, Rule rule) {
    super(other.catalogManager());
    this.other = other;
    this.rule = rule;
  }

  // Puts a rule before the session's other ones, in the place of the one of its class; null only
  // removes that.
  public static void set(SparkSession session, Class kind, Rule rule) throws Exception {
    Analyzer analyzer = session.sessionState().analyzer();
    if (analyzer instanceof AnalyzerRules) analyzer = ((AnalyzerRules) analyzer).other;
    Field field = SessionState.class.getDeclaredField("analyzer");
    field.setAccessible(true);
    field.set(session.sessionState(), rule == null ? analyzer : new AnalyzerRules(analyzer, rule));
  }

  public static boolean has(SparkSession session, Class kind) {
    Analyzer analyzer = session.sessionState().analyzer();
    return analyzer instanceof AnalyzerRules && kind.isInstance(((AnalyzerRules) analyzer).rule);
  }

  public Seq batches() {
    ArrayList all = new ArrayList();
    boolean runs = false;
    for (Iterator i = Scala.iterator(super.batches()); i.hasNext(); ) {
      RuleExecutor.Batch batch = (RuleExecutor.Batch) i.next();
      if (batch.name().equals(EARLY)) {
        runs = true;
        all.add(with(batch, Scala.appended(batch.rules(), rule)));
      } else all.add(batch);
    }
    if (!runs) throw new IllegalStateException("Spark's analyzer has no phase " + EARLY);
    return Scala.seq(all);
  }

  // Timestamps may be function calls, which are resolved before these rules.
  public Seq extendedResolutionRules() {
    // The analyzer's own constructor asks before the field is set.
    if (other == null) return super.extendedResolutionRules();
    ArrayList rules = new ArrayList();
    rules.add(rule);
    for (Iterator i = Scala.iterator(other.extendedResolutionRules()); i.hasNext(); ) rules.add(i.next());
    return Scala.seq(rules);
  }

  public Seq postHocResolutionRules() {
    return other == null ? super.postHocResolutionRules() : other.postHocResolutionRules();
  }

  public Seq extendedCheckRules() {
    return other == null ? super.extendedCheckRules() : other.extendedCheckRules();
  }

  // The moment of a time travel in microseconds.
  public static Object moment(RelationTimeTravel travel, SparkSession session) {
    Object moment =
        TimeTravelSpec$.MODULE$.create(travel.timestamp(), Option.empty(), session.sessionState().conf()).get();
    return ((Product) moment).productElement(0);
  }

  // Spark 3.5 has no recursive queries.
  public static boolean allowsRecursion(UnresolvedWith with) {
    return false;
  }

  private RuleExecutor.Batch with(RuleExecutor.Batch batch, Seq rules) {
    Constructor make = batch.getClass().getConstructors()[0];
    try {
      return (RuleExecutor.Batch) make.newInstance(new Object[] {this, batch.name(), batch.strategy(), rules});
    } catch (ReflectiveOperationException e) {
      throw new IllegalStateException(e);
    }
  }
}
