// An error that Python raised for a JVM thread which plans, or runs a stream: the text for people,
// the fields from which Python rebuilds the error, and delta-spark's condition, which listeners of
// streams receive.
package deltaplane;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.SparkThrowable;

public final class Refused extends RuntimeException implements SparkThrowable {
  private final String error;
  // The condition; never null, since Spark's scripts look up handlers by it. It begins with
  // DELTAPLANE_ if delta-spark has no condition for the error.
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

  // Returns Python's answer, or throws it if it is a refusal: a text that begins with a NUL,
  // followed by its parts, separated by NULs: text, error, condition, state, and the names and
  // values of the condition's parameters.
  public static Object unless(Object answer) {
    if (!(answer instanceof String) || !((String) answer).startsWith("\0")) return answer;
    String[] parts = ((String) answer).split("\0", -1);
    HashMap parameters = new HashMap();
    for (int i = 5; i + 1 < parts.length; i += 2) parameters.put(parts[i], parts[i + 1]);
    // The text of an error without a condition of delta-spark isn't changed.
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

  // The name of `getCondition` in Spark 3.5.
  public String getErrorClass() {
    return condition;
  }

  public String getSqlState() {
    return state;
  }

  public Map getMessageParameters() {
    return parameters;
  }
}
