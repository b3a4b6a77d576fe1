// Spark's Parquet format, but for filters by which its reader would lose rows with floating-point numbers. Files of many writers
// leave NaN out of the bounds in their footers and page indexes, though Spark orders it above all numbers; and the reader
// takes -0.0 and 0.0 in a dictionary or a Bloom filter for two numbers. Spark applies every filter to the rows again. And it knows
// what row tracking has of a file and stores for a row.
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
import scala.jdk.javaapi.CollectionConverters;

public final class ScanFormat extends ParquetFileFormat {
  private static final Double ZERO = Double.valueOf(0.0);
  private static final Float FLOAT_ZERO = Float.valueOf(0.0f);

  // The column of a table that shows only where it is named.
  public static final String HIDDEN = "_metadata";
  // Its fields: Spark's, those of a file, those that a file stores for a row, and those that are made of them.
  public static final String ROW_INDEX = "row_index";
  public static final String BASE_ROW_ID = "base_row_id";
  public static final String DEFAULT_ROW_COMMIT_VERSION = "default_row_commit_version";
  public static final String STORED_ROW_ID = "stored_row_id";
  public static final String STORED_ROW_COMMIT_VERSION = "stored_row_commit_version";
  public static final String ROW_ID = "row_id";
  public static final String ROW_COMMIT_VERSION = "row_commit_version";

  private final boolean tracked;
  // Columns of files that store ids and versions of rows; empty where they have no name.
  private final String ids;
  private final String versions;

  public ScanFormat(boolean tracked, String ids, String versions) {
    this.tracked = tracked;
    this.ids = ids;
    this.versions = versions;
  }

  // From what row tracking calls the columns that it stores, a NUL between the two; null for a table without row tracking.
  public static ScanFormat of(String tracking) {
    if (tracking == null) return new ScanFormat(false, "", "");
    String[] names = tracking.split("\0", -1);
    return new ScanFormat(true, names[0], names[1]);
  }

  public boolean isTracked() {
    return tracked;
  }

  // What a scan has of files and rows. What it has of row tracking is null where a file has none, and no id yet: HiddenMetadata
  // makes ids of it. Spark reads a stored column by its name in files, and takes null where a file has none.
  public Seq metadataSchemaFields() {
    Seq fields = super.metadataSchemaFields();
    if (!tracked) return fields;
    fields = with(fields, constant(BASE_ROW_ID));
    fields = with(fields, constant(DEFAULT_ROW_COMMIT_VERSION));
    if (!ids.isEmpty()) fields = with(fields, generated(STORED_ROW_ID, ids));
    if (!versions.isEmpty()) fields = with(fields, generated(STORED_ROW_COMMIT_VERSION, versions));
    return fields;
  }

  // What `_metadata` shows: Spark's fields, and those of row tracking in the order in which delta-spark has them.
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
    return (Seq) fields.appended(one);
  }

  // Executors get the reader with the format that made it, and don't have this class: Spark's own makes it.
  public Function1 buildReaderWithPartitionValues(
      SparkSession session, StructType data, StructType partitions, StructType required, Seq filters, Map options,
      Configuration configuration) {
    return new ParquetFileFormat()
        .buildReaderWithPartitionValues(
            session, data, partitions, required, safe(filters), options, configuration);
  }

  // These filters, without those that nothing safe follows from.
  public static Seq safe(Seq filters) {
    ArrayList all = new ArrayList();
    for (Iterator i = CollectionConverters.asJava(filters).iterator(); i.hasNext(); ) {
      Filter one = safe((Filter) i.next());
      if (one != null) all.add(one);
    }
    return CollectionConverters.asScala(all).toList();
  }

  // A filter that every row meets that meets this one, and by which no reader loses rows; null where there is none.
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
    // NaN is greater than what is asked for, and unequal to it. What a later Spark adds isn't known to be safe.
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
    // Spark takes both zeros in one list for the same.
    Filter rest = others.isEmpty() ? null : new In(attribute, others.toArray());
    if (zero == null) return rest;
    return rest == null ? equal(attribute, zero) : new Or(rest, equal(attribute, zero));
  }

  private static Filter either(Filter left, Filter right) {
    return left == null || right == null ? null : new Or(left, right);
  }

  // Whether a value in a filter, at any depth, is a floating-point number: the column is of such a type, then.
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
