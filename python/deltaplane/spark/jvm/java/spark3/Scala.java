// Scala's collections and case classes from Java, for Scala 2.12. The class of the same name for
// Scala 2.13 has the same methods.
package deltaplane;

import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import scala.Product;
import scala.collection.JavaConverters;
import scala.collection.Seq;
import scala.collection.mutable.WrappedArray$;

public final class Scala {
  // The names of the fields by the class, cached since each scan asks for those of its relation.
  private static final ConcurrentHashMap NAMES = new ConcurrentHashMap();

  private Scala() {}

  public static Iterator iterator(Object seq) {
    return JavaConverters.seqAsJavaList((Seq) seq).iterator();
  }

  public static Seq seq(List items) {
    return JavaConverters.asScalaBuffer(items).toList();
  }

  // A sequence that shares the array.
  public static Seq seqOf(Object[] items) {
    return WrappedArray$.MODULE$.make(items);
  }

  public static Seq appended(Object seq, Object item) {
    ArrayList all = new ArrayList(JavaConverters.seqAsJavaList((Seq) seq));
    all.add(item);
    return seq(all);
  }

  public static Map map(Object map) {
    return JavaConverters.mapAsJavaMap((scala.collection.Map) map);
  }

  // The name of a field of a case class, which Scala 2.12 doesn't tell: a class declares the fields
  // of its constructor's parameters as final ones, before those of its body and in their order.
  public static String fieldName(Product item, int n) {
    String[] names = (String[]) NAMES.get(item.getClass());
    if (names == null) {
      names = declared(item);
      NAMES.put(item.getClass(), names);
    }
    return names[n];
  }

  private static String[] declared(Product item) {
    ArrayList names = new ArrayList();
    Field[] all = item.getClass().getDeclaredFields();
    for (int i = 0; i < all.length && names.size() < item.productArity(); i++) {
      int modifiers = all[i].getModifiers();
      if (Modifier.isFinal(modifiers) && !Modifier.isStatic(modifiers)) names.add(all[i].getName());
    }
    if (names.size() != item.productArity())
      throw new IllegalStateException(item.getClass().getName() + " doesn't declare its fields as a case class does");
    return (String[]) names.toArray(new String[0]);
  }
}
