// What JVM clients do with deltaplane's server: Unity Catalog's own Java client, and Delta's kernel
// with its module of Unity Catalog: `java UnityKernel.java REQUEST`, a JSON object; prints a JSON
// object of outcomes. It knows nothing of deltaplane.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.delta.kernel.CommitRange;
import io.delta.kernel.DataWriteContext;
import io.delta.kernel.Operation;
import io.delta.kernel.Scan;
import io.delta.kernel.Snapshot;
import io.delta.kernel.Transaction;
import io.delta.kernel.TransactionCommitResult;
import io.delta.kernel.data.ColumnVector;
import io.delta.kernel.data.ColumnarBatch;
import io.delta.kernel.data.FilteredColumnarBatch;
import io.delta.kernel.data.Row;
import io.delta.kernel.defaults.engine.DefaultEngine;
import io.delta.kernel.defaults.internal.data.DefaultColumnarBatch;
import io.delta.kernel.defaults.internal.data.vector.DefaultGenericVector;
import io.delta.kernel.engine.Engine;
import io.delta.kernel.engine.FileReadResult;
import io.delta.kernel.internal.InternalScanFileUtils;
import io.delta.kernel.internal.data.ScanStateRow;
import io.delta.kernel.internal.util.Utils;
import io.delta.kernel.types.StructType;
import io.delta.kernel.unitycatalog.UCCatalogManagedClient;
import io.delta.kernel.unitycatalog.UCTableIdentifier;
import io.delta.kernel.utils.CloseableIterable;
import io.delta.kernel.utils.CloseableIterator;
import io.delta.kernel.utils.DataFileStatus;
import io.delta.storage.commit.uccommitcoordinator.UCClient;
import io.delta.storage.commit.uccommitcoordinator.UCDeltaTokenBasedRestClient;
import io.delta.storage.commit.uccommitcoordinator.UCTokenBasedRestClient;
import io.unitycatalog.client.ApiClient;
import io.unitycatalog.client.ApiClientBuilder;
import io.unitycatalog.client.ApiException;
import io.unitycatalog.client.api.CatalogsApi;
import io.unitycatalog.client.api.SchemasApi;
import io.unitycatalog.client.api.TablesApi;
import io.unitycatalog.client.auth.TokenProvider;
import io.unitycatalog.client.delta.api.DeltaConfigurationApi;
import io.unitycatalog.client.delta.api.DeltaTablesApi;
import io.unitycatalog.client.delta.api.DeltaTemporaryCredentialsApi;
import io.unitycatalog.client.delta.model.DeltaCommit;
import io.unitycatalog.client.delta.model.DeltaCredentialOperation;
import io.unitycatalog.client.delta.model.DeltaLoadTableResponse;
import io.unitycatalog.client.model.CatalogInfo;
import io.unitycatalog.client.model.SchemaInfo;
import io.unitycatalog.client.model.TableInfo;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.hadoop.conf.Configuration;

public final class UnityKernel {
  private static final ObjectMapper JSON = new ObjectMapper();

  private final String url;
  private final String token;
  private final String catalog;
  private final String schema;
  private final ApiClient api;
  private final Engine engine = DefaultEngine.create(new Configuration());

  private UnityKernel(JsonNode request) {
    url = request.get("url").asText();
    token = request.get("token").asText();
    catalog = request.get("catalog").asText();
    schema = request.get("schema").asText();
    api = ApiClientBuilder.create().uri(url).tokenProvider(tokens()).build();
  }

  public static void main(String[] arguments) throws Exception {
    JsonNode request = JSON.readTree(arguments[0]);
    UnityKernel client = new UnityKernel(request);
    Map<String, Object> outcomes = new LinkedHashMap<>();
    outcomes.put("names", client.names());
    String table = request.get("table").asText();
    outcomes.put("loaded", client.loaded(table));
    outcomes.put("absent", client.absent());
    // The API of today, and the older endpoint, which the kernel's client may use instead of it.
    try (UCClient rest = client.deltaClient()) {
      outcomes.put("kernel", client.kernel(rest, table, request.get("ids")));
    }
    try (UCClient rest = client.olderClient()) {
      outcomes.put("older", client.kernel(rest, table, request.get("older_ids")));
    }
    System.out.println("outcomes " + JSON.writeValueAsString(outcomes));
  }

  private TokenProvider tokens() {
    return TokenProvider.create(Map.of("type", "static", "token", token));
  }

  private UCClient deltaClient() {
    Map<String, String> settings = Map.of("uri", url, "auth.type", "static", "auth.token", token);
    return new UCDeltaTokenBasedRestClient(settings, Configuration::new);
  }

  private UCClient olderClient() {
    return new UCTokenBasedRestClient(url, tokens(), Map.of());
  }

  /** Catalogs, schemas and tables by their names. */
  private List<Object> names() throws ApiException {
    List<Object> names = new ArrayList<>();
    names.add(new CatalogsApi(api).listCatalogs(null, null).getCatalogs().stream().map(CatalogInfo::getName).toList());
    names.add(
        new SchemasApi(api).listSchemas(catalog, null, null).getSchemas().stream().map(SchemaInfo::getFullName).toList());
    List<TableInfo> tables = new TablesApi(api).listTables(catalog, schema, null, null).getTables();
    names.add(tables.stream().map(TableInfo::getName).toList());
    return names;
  }

  /** A table as the Delta API describes it, with the commits that aren't published. */
  private Map<String, Object> loaded(String table) throws ApiException {
    DeltaLoadTableResponse answer = new DeltaTablesApi(api).loadTable(catalog, schema, table);
    Map<String, Object> outcome = new LinkedHashMap<>();
    outcome.put("protocols", new DeltaConfigurationApi(api).getConfig(catalog, "1.0").getProtocolVersion());
    outcome.put("type", String.valueOf(answer.getMetadata().getTableType()));
    outcome.put("columns", answer.getMetadata().getColumns().getFields().stream().map(field -> field.getName()).toList());
    outcome.put("version", answer.getLatestTableVersion());
    List<DeltaCommit> commits = answer.getCommits() == null ? List.of() : answer.getCommits();
    outcome.put("commits", commits.stream().map(DeltaCommit::getVersion).toList());
    outcome.put(
        "credentials",
        new DeltaTemporaryCredentialsApi(api)
            .getTableCredentials(DeltaCredentialOperation.READ_WRITE, catalog, schema, table)
            .getStorageCredentials()
            .size());
    return outcome;
  }

  private String absent() throws Exception {
    try {
      new DeltaTablesApi(api).loadTable(catalog, schema, "absent");
      return "is there";
    } catch (ApiException e) {
      return e.getCode() + " " + JSON.readTree(e.getResponseBody()).at("/error/type").asText();
    }
  }

  /** Reads a managed table and its commits, appends two times, of which the first commit is published. */
  private Map<String, Object> kernel(UCClient rest, String table, JsonNode ids) throws Exception {
    Map<String, Object> outcome = new LinkedHashMap<>();
    TableInfo info = new TablesApi(api).getTable(catalog + "." + schema + "." + table, null, null);
    Table reader = new Table(new UCCatalogManagedClient(rest), info);
    Snapshot first = reader.snapshot(Optional.empty());
    outcome.put("version", first.getVersion());
    outcome.put("rows", rows(first));
    outcome.put("at 1", rows(reader.snapshot(Optional.of(1L))));
    CommitRange range = reader.commits(first.getVersion());
    outcome.put("commits", List.of(range.getStartVersion(), range.getEndVersion(), range.getDeltaFiles().size()));
    List<Object> versions = new ArrayList<>();
    for (JsonNode id : ids) {
      Snapshot snapshot = reader.snapshot(Optional.empty());
      TransactionCommitResult done = append(snapshot, id.asLong());
      versions.add(done.getVersion());
      if (versions.size() == 1) {
        done.getPostCommitSnapshot().orElseThrow().publish(engine);
      }
    }
    outcome.put("appended", versions);
    Snapshot last = reader.snapshot(Optional.empty());
    outcome.put("rows after", rows(last));
    // A writer that read an older version doesn't overwrite newer ones: the kernel rebases on
    // published commits, and gives up where the newest one isn't.
    outcome.put("stale", rebased(first, ids.get(0).asLong() + 1000));
    last.publish(engine);
    outcome.put("stale after publication", rebased(first, ids.get(0).asLong() + 2000));
    return outcome;
  }

  private Object rebased(Snapshot snapshot, long id) throws Exception {
    try {
      return append(snapshot, id).getVersion();
    } catch (RuntimeException e) {
      return e.getClass().getSimpleName();
    }
  }

  /** A table of the catalog, as the kernel opens it. */
  private final class Table {
    private final UCCatalogManagedClient client;
    private final TableInfo info;
    private final UCTableIdentifier name;

    private Table(UCCatalogManagedClient client, TableInfo info) {
      this.client = client;
      this.info = info;
      name = new UCTableIdentifier(catalog, schema, info.getName());
    }

    private Snapshot snapshot(Optional<Long> version) {
      return client.loadSnapshot(engine, info.getTableId(), info.getStorageLocation(), name, version, Optional.empty());
    }

    private CommitRange commits(long last) {
      return client.loadCommitRange(
          engine,
          info.getTableId(),
          info.getStorageLocation(),
          name,
          Optional.of(0L),
          Optional.empty(),
          Optional.of(last),
          Optional.empty());
    }
  }

  /** The rows of a version as pairs of a number and a text, in the order of numbers. */
  private List<List<Object>> rows(Snapshot snapshot) throws Exception {
    Scan scan = snapshot.getScanBuilder().build();
    Row state = scan.getScanState(engine);
    StructType physical = ScanStateRow.getPhysicalDataReadSchema(state);
    List<List<Object>> all = new ArrayList<>();
    try (CloseableIterator<FilteredColumnarBatch> batches = scan.getScanFiles(engine)) {
      while (batches.hasNext()) {
        try (CloseableIterator<Row> files = batches.next().getRows()) {
          while (files.hasNext()) {
            read(state, files.next(), physical, all);
          }
        }
      }
    }
    all.sort((one, other) -> Long.compare((Long) one.get(0), (Long) other.get(0)));
    return all;
  }

  private void read(Row state, Row file, StructType physical, List<List<Object>> all) throws Exception {
    CloseableIterator<ColumnarBatch> data =
        engine
            .getParquetHandler()
            .readParquetFiles(
                Utils.singletonCloseableIterator(InternalScanFileUtils.getAddFileStatus(file)),
                physical,
                Optional.empty())
            .map(FileReadResult::getData);
    try (CloseableIterator<FilteredColumnarBatch> logical = Scan.transformPhysicalData(engine, state, file, data)) {
      while (logical.hasNext()) {
        try (CloseableIterator<Row> rows = logical.next().getRows()) {
          while (rows.hasNext()) {
            Row row = rows.next();
            all.add(List.of(row.getLong(0), row.getString(1)));
          }
        }
      }
    }
  }

  /** Appends one row. */
  private TransactionCommitResult append(Snapshot snapshot, long id) throws Exception {
    Transaction transaction = snapshot.buildUpdateTableTransaction("kernel", Operation.WRITE).build(engine);
    Row state = transaction.getTransactionState(engine);
    StructType columns = transaction.getSchema(engine);
    ColumnVector[] vectors = {
      DefaultGenericVector.fromArray(columns.at(0).getDataType(), new Object[] {id}),
      DefaultGenericVector.fromArray(columns.at(1).getDataType(), new Object[] {"by the kernel"})
    };
    FilteredColumnarBatch batch =
        new FilteredColumnarBatch(new DefaultColumnarBatch(1, columns, vectors), Optional.empty());
    CloseableIterator<FilteredColumnarBatch> physical =
        Transaction.transformLogicalData(engine, state, Utils.singletonCloseableIterator(batch), new HashMap<>());
    DataWriteContext context = Transaction.getWriteContext(engine, state, new HashMap<>());
    CloseableIterator<DataFileStatus> files =
        engine
            .getParquetHandler()
            .writeParquetFiles(context.getTargetDirectory(), physical, context.getStatisticsColumns());
    CloseableIterator<Row> actions = Transaction.generateAppendActions(engine, state, files, context);
    return transaction.commit(engine, CloseableIterable.inMemoryIterable(actions));
  }
}
