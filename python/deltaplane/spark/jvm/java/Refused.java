// An error that Python raised for a JVM thread which plans, or runs a stream: the text for people, the fields from which
// Python rebuilds the error, and delta-spark's condition, which listeners of streams receive.
package deltaplane;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkThrowable;

public final class Refused extends RuntimeException implements SparkThrowable {
  private final String error;
  // Never null: Spark's scripts look for handlers by it. Begins with DELTAPLANE_ where delta-spark has no name for the error.
  private final String condition;
  private final String state;
  private final HashMap parameters;

  private Refused(String text, String error, String condition, String state, HashMap parameters) {
    super(text);
    this.error = error;
    this.condition = condition;
    this.state = state;
    this.parameters = parameters;
  }

  // What Python answered, unless it is a refusal, which is thrown: a text that begins with a NUL, with its parts behind further
  // ones: text, error, condition and state, and the condition's parameters, each name before its value.
  public static Object unless(Object answer) {
    if (!(answer instanceof String) || !((String) answer).startsWith("\0")) return answer;
    String[] parts = ((String) answer).split("\0", -1);
    HashMap parameters = new HashMap();
    for (int i = 5; i + 1 < parts.length; i += 2) parameters.put(parts[i], parts[i + 1]);
    // The text of an error that delta-spark has no name for stays as it is.
    boolean named = !parts[3].startsWith("DELTAPLANE_");
    String text = parts[1];
    // Some texts begin with the condition.
    if (named && text.startsWith(parts[3] + ": ")) text = text.substring(parts[3].length() + 2);
    if (named && !text.startsWith("[" + parts[3] + "]")) text = "[" + parts[3] + "] " + text;
    throw new Refused(text, parts[2], parts[3], parts[4], parameters);
  }

  public String error() {
    return error;
  }

  public String getCondition() {
    return condition;
  }

  public String getSqlState() {
    return state;
  }

  public Map getMessageParameters() {
    return parameters;
  }
}
