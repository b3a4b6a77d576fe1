// Reads the entry of a Parquet table in a session's own catalog, and changes such an entry to a
// Delta table's.
package deltaplane;

import java.lang.reflect.Constructor;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.catalog.CatalogStorageFormat;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.CatalogTablePartition;
import org.apache.spark.sql.catalyst.catalog.CatalogTableType;
import org.apache.spark.sql.catalyst.catalog.SessionCatalog;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.Product;
import scala.collection.immutable.Nil$;

public final class Catalogs {
  private Catalogs() {}

  // Returns lines whose parts are separated by NULs: "managed"; "schema" and its JSON; "column" and
  // the name of a partition column; "property", its name and its value; "tracked" if the catalog
  // has the partitions; and "partition" for each of them, with its location and the name and value
  // of each column.
  public static String[] table(SparkSession session, String name) throws Exception {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = session.sessionState().sqlParser().parseTableIdentifier(name);
    CatalogTable table = catalog.getTableMetadata(identifier);
    ArrayList found = new ArrayList();
    if (table.tableType().name().equals("MANAGED")) found.add("managed");
    found.add("schema\0" + table.schema().json());
    for (Iterator i = Scala.iterator(table.partitionColumnNames()); i.hasNext(); ) found.add("column\0" + i.next());
    add(found, "property", table.properties());
    if (table.tracksPartitionsInCatalog() && !table.partitionColumnNames().isEmpty()) {
      found.add("tracked");
      for (Iterator i = Scala.iterator(catalog.listPartitions(identifier, Option.empty())); i.hasNext(); ) {
        CatalogTablePartition one = (CatalogTablePartition) i.next();
        StringBuilder line = new StringBuilder("partition\0").append(new Path(one.location()));
        Map spec = Scala.map(one.spec());
        for (Iterator of = spec.entrySet().iterator(); of.hasNext(); ) {
          Map.Entry value = (Map.Entry) of.next();
          line.append('\0').append(value.getKey()).append('\0').append(value.getValue());
        }
        found.add(line.toString());
      }
    }
    return (String[]) found.toArray(new String[0]);
  }

  private static void add(ArrayList found, String what, Object properties) {
    Map all = Scala.map(properties);
    for (Iterator i = all.entrySet().iterator(); i.hasNext(); ) {
      Map.Entry one = (Map.Entry) i.next();
      found.add(what + "\0" + one.getKey() + "\0" + one.getValue());
    }
  }

  // Changes the format of a table's entry at the same location, with these columns and without
  // catalog partitions. Spark considers every table with a location external: dropping only the
  // name keeps the files.
  public static void change(SparkSession session, String name, String provider, StructType schema, Map properties)
      throws Exception {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = session.sessionState().sqlParser().parseTableIdentifier(name);
    CatalogTable table = catalog.getTableMetadata(identifier);
    HashMap location = new HashMap();
    location.put("locationUri", table.storage().locationUri());
    HashMap changed = new HashMap();
    changed.put("tableType", CatalogTableType.EXTERNAL());
    changed.put("storage", copy(CatalogStorageFormat.empty(), location));
    changed.put("schema", schema);
    changed.put("provider", Option.apply(provider));
    changed.put("partitionColumnNames", Nil$.MODULE$);
    changed.put("bucketSpec", Option.empty());
    changed.put("tracksPartitionsInCatalog", Boolean.FALSE);
    changed.put("properties", org.apache.spark.api.python.PythonUtils.toScalaMap(properties));
    catalog.alterTable((CatalogTable) copy((Product) table, changed));
    catalog.refreshTable(identifier);
  }

  // Registers the name of a table at a location unless it is registered already. Spark 3.5 knows no
  // format of a data source in Python, so that its own statement can't.
  public static void create(
      SparkSession session, String name, String provider, StructType schema, String location, Map properties)
      throws Exception {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = session.sessionState().sqlParser().parseTableIdentifier(name);
    HashMap at = new HashMap();
    at.put("locationUri", Option.apply(new Path(location).toUri()));
    HashMap fields = new HashMap();
    fields.put("storage", copy(CatalogStorageFormat.empty(), at));
    fields.put("provider", Option.apply(provider));
    fields.put("properties", org.apache.spark.api.python.PythonUtils.toScalaMap(properties));
    Product entry = (Product) PrepareScans.entry(identifier, schema);
    catalog.createTable((CatalogTable) copy(entry, fields), true, false);
  }

  // Renames a table's entry. Spark 3.5's own statement fails for a relation without an entry of its
  // own, which the relations of Delta tables are.
  public static void rename(SparkSession session, String name, String to) throws Exception {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = session.sessionState().sqlParser().parseTableIdentifier(name);
    catalog.refreshTable(identifier);
    catalog.renameTable(identifier, session.sessionState().sqlParser().parseTableIdentifier(to));
  }

  // Changes the location of a table's entry, for the same reason.
  public static void move(SparkSession session, String name, String location) throws Exception {
    SessionCatalog catalog = session.sessionState().catalog();
    TableIdentifier identifier = session.sessionState().sqlParser().parseTableIdentifier(name);
    CatalogTable table = catalog.getTableMetadata(identifier);
    HashMap at = new HashMap();
    at.put("locationUri", Option.apply(new Path(location).toUri()));
    HashMap storage = new HashMap();
    storage.put("storage", copy(table.storage(), at));
    catalog.alterTable((CatalogTable) copy((Product) table, storage));
    catalog.refreshTable(identifier);
  }

  // A copy of a case class with other values of some fields, whichever further fields this Spark
  // version has.
  private static Object copy(Product of, Map changed) throws Exception {
    Object[] all = new Object[of.productArity()];
    for (int i = 0; i < all.length; i++) {
      String field = Scala.fieldName(of, i);
      all[i] = changed.containsKey(field) ? changed.get(field) : of.productElement(i);
    }
    Constructor[] made = of.getClass().getConstructors();
    for (int i = 0; i < made.length; i++)
      if (made[i].getParameterTypes().length == all.length) return made[i].newInstance(all);
    throw new IllegalStateException(of.getClass().getName() + " has no constructor of all its fields");
  }
}
