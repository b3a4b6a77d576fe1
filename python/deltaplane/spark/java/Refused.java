// What Python refuses to a thread of the JVM's that plans: the text for people, and the error from which Python makes it again.
package deltaplane;

public final class Refused extends RuntimeException {
  private final String error;

  public Refused(String text, String error) {
    super(text);
    this.error = error;
  }

  public String error() {
    return error;
  }
}
