// Scala's collections and case classes from Java, for Scala 2.13. The class of the same name for
// Scala 2.12 has the same methods.
package deltaplane;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import scala.Product;
import scala.collection.immutable.ArraySeq$;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

public final class Scala {
  private Scala() {}

  public static Iterator iterator(Object seq) {
    return CollectionConverters.asJava((scala.collection.Seq) seq).iterator();
  }

  public static Seq seq(List items) {
    return CollectionConverters.asScala(items).toList();
  }

  // A sequence that shares the array.
  public static Seq seqOf(Object[] items) {
    return ArraySeq$.MODULE$.unsafeWrapArray(items);
  }

  public static Seq appended(Object seq, Object item) {
    return (Seq) ((Seq) seq).appended(item);
  }

  public static Map map(Object map) {
    return CollectionConverters.asJava((scala.collection.Map) map);
  }

  // The name of a field of a case class.
  public static String fieldName(Product item, int n) {
    return item.productElementName(n);
  }
}
