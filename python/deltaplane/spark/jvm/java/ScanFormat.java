// Spark's Parquet format without the filters by which its reader would lose rows with
// floating-point numbers. Many writers leave NaN out of the bounds in footers and page indexes,
// though Spark orders it above all numbers; and the reader considers -0.0 and 0.0 two numbers in a
// dictionary or a Bloom filter. Spark applies every filter to the rows again. The format also has
// the columns of row tracking: the constants of a file, and what files store for each row.
package deltaplane;

import java.util.ArrayList;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.FileSourceConstantMetadataStructField$;
import org.apache.spark.sql.catalyst.expressions.FileSourceGeneratedMetadataStructField$;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualNullSafe;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.LongType$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Product;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;

public final class ScanFormat extends ParquetFileFormat {
  private static final Double ZERO = Double.valueOf(0.0);
  private static final Float FLOAT_ZERO = Float.valueOf(0.0f);

  // The hidden column of a table, which queries only return if they name it.
  public static final String HIDDEN = "_metadata";
  // The hidden column's fields: Spark's, constants of a file, values stored for each row, and those
  // computed from them.
  public static final String ROW_INDEX = "row_index";
  public static final String BASE_ROW_ID = "base_row_id";
  public static final String DEFAULT_ROW_COMMIT_VERSION = "default_row_commit_version";
  public static final String STORED_ROW_ID = "stored_row_id";
  public static final String STORED_ROW_COMMIT_VERSION = "stored_row_commit_version";
  public static final String ROW_ID = "row_id";
  public static final String ROW_COMMIT_VERSION = "row_commit_version";

  private final boolean tracked;
  // The names of the columns in which files store row ids and row commit versions; empty without
  // row tracking.
  private final String ids;
  private final String versions;

  public ScanFormat(boolean tracked, String ids, String versions) {
    this.tracked = tracked;
    this.ids = ids;
    this.versions = versions;
  }

  // `tracking`: the names of row tracking's two stored columns, separated by a NUL; null for a
  // table without row tracking.
  public static ScanFormat of(String tracking) {
    if (tracking == null) return new ScanFormat(false, "", "");
    String[] names = tracking.split("\0", -1);
    return new ScanFormat(true, names[0], names[1]);
  }

  public boolean isTracked() {
    return tracked;
  }

  // The metadata columns of a scan. Those of row tracking are null for files without them, and
  // HiddenMetadata computes ids from them. Spark reads a stored column by its name in files, and
  // returns null if a file lacks it.
  public Seq metadataSchemaFields() {
    Seq fields = super.metadataSchemaFields();
    if (!tracked) return fields;
    fields = with(fields, constant(BASE_ROW_ID));
    fields = with(fields, constant(DEFAULT_ROW_COMMIT_VERSION));
    if (!ids.isEmpty()) fields = with(fields, generated(STORED_ROW_ID, ids));
    if (!versions.isEmpty()) fields = with(fields, generated(STORED_ROW_COMMIT_VERSION, versions));
    return fields;
  }

  // The fields of `_metadata`: Spark's, then those of row tracking in delta-spark's order.
  public StructType hiddenType() {
    StructType known = (StructType) createFileMetadataCol().dataType();
    if (!tracked) return known;
    ArrayList all = new ArrayList();
    for (int n = 0; n < known.fields().length; n++) {
      String name = known.fields()[n].name();
      boolean ours = name.equals(BASE_ROW_ID) || name.equals(DEFAULT_ROW_COMMIT_VERSION)
          || name.equals(STORED_ROW_ID) || name.equals(STORED_ROW_COMMIT_VERSION);
      if (!ours) all.add(known.fields()[n]);
    }
    all.add(number(ROW_ID));
    all.add(number(BASE_ROW_ID));
    all.add(number(DEFAULT_ROW_COMMIT_VERSION));
    all.add(number(ROW_COMMIT_VERSION));
    return new StructType((StructField[]) all.toArray(new StructField[0]));
  }

  private static StructField number(String name) {
    return new StructField(name, LongType$.MODULE$, false, org.apache.spark.sql.types.Metadata.empty());
  }

  private static StructField constant(String name) {
    return FileSourceConstantMetadataStructField$.MODULE$.apply(name, LongType$.MODULE$, true);
  }

  private static StructField generated(String name, String column) {
    return FileSourceGeneratedMetadataStructField$.MODULE$.apply(name, column, LongType$.MODULE$, true);
  }

  private static Seq with(Seq fields, StructField one) {
    return Scala.appended(fields, one);
  }

  // Spark's own format makes the reader: a reader is sent to executors with its format, and
  // executors lack this class.
  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters, Map options,
      Configuration configuration) {
    return new ParquetFileFormat()
        .buildReaderWithPartitionValues(
            session, data, partitions, required, safe(filters), options, configuration);
  }

  // The filters that are safe for the reader; the others are left out.
  public static Seq safe(Seq filters) {
    ArrayList all = new ArrayList();
    for (Iterator i = Scala.iterator(filters); i.hasNext(); ) {
      Filter one = safe((Filter) i.next());
      if (one != null) all.add(one);
    }
    return Scala.seq(all);
  }

  // A filter that follows from this one and by which no reader loses rows; null if there is none.
  private static Filter safe(Filter filter) {
    if (!comparesFloats(filter)) return filter;
    if (filter instanceof And) {
      Filter left = safe(((And) filter).left());
      Filter right = safe(((And) filter).right());
      return left == null ? right : right == null ? left : new And(left, right);
    }
    if (filter instanceof Or) return either(safe(((Or) filter).left()), safe(((Or) filter).right()));
    if (filter instanceof EqualTo) return equal(((EqualTo) filter).attribute(), ((EqualTo) filter).value());
    if (filter instanceof EqualNullSafe)
      return equal(((EqualNullSafe) filter).attribute(), ((EqualNullSafe) filter).value());
    if (filter instanceof In) return in(((In) filter).attribute(), ((In) filter).values());
    if (filter instanceof LessThan) return isNaN(((LessThan) filter).value()) ? null : filter;
    if (filter instanceof LessThanOrEqual) {
      Object value = ((LessThanOrEqual) filter).value();
      if (isNaN(value)) return null;
      return isZero(value) ? new LessThanOrEqual(((LessThanOrEqual) filter).attribute(), zero(value)) : filter;
    }
    // NaN is greater than every bound and unequal to it. Filters that later versions of Spark add
    // aren't known to be safe.
    return null;
  }

  private static Filter equal(String attribute, Object value) {
    if (isNaN(value)) return null;
    if (!isZero(value)) return new EqualTo(attribute, value);
    return new Or(new EqualTo(attribute, zero(value)), new EqualTo(attribute, negative(zero(value))));
  }

  private static Filter in(String attribute, Object[] values) {
    ArrayList others = new ArrayList();
    Object zero = null;
    for (int i = 0; i < values.length; i++) {
      if (isNaN(values[i])) return null;
      if (isZero(values[i])) zero = values[i];
      else others.add(values[i]);
    }
    // Spark considers both zeros of one list equal.
    Filter rest = others.isEmpty() ? null : new In(attribute, others.toArray());
    if (zero == null) return rest;
    return rest == null ? equal(attribute, zero) : new Or(rest, equal(attribute, zero));
  }

  private static Filter either(Filter left, Filter right) {
    return left == null || right == null ? null : new Or(left, right);
  }

  // Whether a filter's value is a floating-point number at any depth, which shows the column's
  // type.
  private static boolean comparesFloats(Object part) {
    if (part instanceof Double || part instanceof Float) return true;
    if (part instanceof Object[]) {
      Object[] all = (Object[]) part;
      for (int i = 0; i < all.length; i++) if (comparesFloats(all[i])) return true;
      return false;
    }
    if (!(part instanceof Filter) || !(part instanceof Product)) return false;
    Product parts = (Product) part;
    for (int i = 0; i < parts.productArity(); i++) if (comparesFloats(parts.productElement(i))) return true;
    return false;
  }

  private static boolean isNaN(Object value) {
    return (value instanceof Double && ((Double) value).isNaN()) || (value instanceof Float && ((Float) value).isNaN());
  }

  private static boolean isZero(Object value) {
    return (value instanceof Double && ((Double) value).doubleValue() == 0.0)
        || (value instanceof Float && ((Float) value).floatValue() == 0.0f);
  }

  private static Object zero(Object of) {
    return of instanceof Double ? (Object) ZERO : (Object) FLOAT_ZERO;
  }

  private static Object negative(Object zero) {
    return zero instanceof Double ? (Object) Double.valueOf(-0.0) : (Object) Float.valueOf(-0.0f);
  }
}
