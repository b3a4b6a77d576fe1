// A plan node with a table's rows and the hidden column `_metadata` of Spark's file sources:
// metadata of a row's file and, with row tracking, the row's id and the version that last wrote it.
// Spark adds `_metadata` to a single scan, but neither to a union of two scans (files with and
// without deletion vectors) nor to a stream's source that calls Python.
package deltaplane;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Iterator;
import java.util.UUID;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.expressions.Add;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.ExprId;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.FileSourceMetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.Literal$;
import org.apache.spark.sql.catalyst.expressions.MetadataAttribute$;
import org.apache.spark.sql.catalyst.expressions.NamedExpression$;
import org.apache.spark.sql.catalyst.expressions.objects.AssertNotNull;
import org.apache.spark.sql.catalyst.plans.logical.ExposesMetadataColumns;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation;
import org.apache.spark.sql.execution.streaming.runtime.StreamingExecutionRelation$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.immutable.Seq;

// A SubqueryAlias without a name: Spark's optimizer removes it, and columns keep their qualifiers.
public final class HiddenMetadata extends SubqueryAlias implements ExposesMetadataColumns {
  private static final String NAME = ScanFormat.HIDDEN;
  private static final UUID OWN_IDS =
      UUID.nameUUIDFromBytes("deltaplane _metadata".getBytes(StandardCharsets.UTF_8));

  public HiddenMetadata(AliasIdentifier identifier, LogicalPlan child) {
    super(identifier, child);
  }

  public static LogicalPlan over(LogicalPlan plan) {
    return new HiddenMetadata(new AliasIdentifier(NAME, none()), plan);
  }

  public SubqueryAlias copy(AliasIdentifier identifier, LogicalPlan child) {
    return new HiddenMetadata(identifier, child);
  }

  public Seq output() {
    return child().output();
  }

  public Seq metadataOutput() {
    String name = NAME;
    for (Iterator i = Scala.iterator(output()); i.hasNext(); ) {
      Attribute one = (Attribute) i.next();
      if (isMetadata(one)) return single(one);
    }
    // A table column of this name takes precedence; as in Spark, `metadataColumn` then finds the
    // hidden one.
    while (hasOutput(name)) name = "_" + name;
    StructType type = typeOf(child());
    ExprId id = idOf(child());
    if (type == null || id == null) return Scala.seq(Collections.emptyList());
    return single(new AttributeReference(name, type, false, metadata(), id, none()));
  }

  // The rows with the hidden column in their output, under the expression id that `metadataOutput`
  // returns.
  public LogicalPlan withMetadataColumns() {
    Attribute hidden = (Attribute) metadataOutput().head();
    if (output().contains(hidden)) return this;
    LogicalPlan shown = shown(child());
    Attribute column = (Attribute) shown.output().last();
    Alias alias =
        new Alias(column, hidden.name(), hidden.exprId(), none(), Option.apply(metadata()), none());
    return over(new Project(Scala.appended(output(), alias), shown));
  }

  // The attributes from which the column is computed, above a scan or a stream's source; null if
  // there are none.
  private static StructType typeOf(LogicalPlan plan) {
    if (plan instanceof LogicalRelation) {
      Object relation = ((LogicalRelation) plan).relation();
      if (!(relation instanceof HadoopFsRelation)) return null;
      Object format = ((HadoopFsRelation) relation).fileFormat();
      return format instanceof ScanFormat ? ((ScanFormat) format).hiddenType() : null;
    }
    if (plan instanceof StreamingExecutionRelation) {
      Object source = ((StreamingExecutionRelation) plan).source();
      return source instanceof Followed ? ((Followed) source).hiddenType() : null;
    }
    if (!passes(plan)) return null;
    StructType type = null;
    for (Iterator i = Scala.iterator(plan.children()); i.hasNext(); ) {
      StructType one = typeOf((LogicalPlan) i.next());
      if (one == null || (type != null && !type.equals(one))) return null;
      type = one;
    }
    return type;
  }

  private static boolean passes(LogicalPlan plan) {
    return plan instanceof Project || plan instanceof Filter || plan instanceof SubqueryAlias || plan instanceof Union;
  }

  // An expression id computed from those of the columns below: if Spark replaces these, as in a
  // self-join, the hidden column's id changes as well.
  private static ExprId idOf(LogicalPlan plan) {
    LogicalPlan leaf = plan;
    while (!leaf.children().isEmpty()) leaf = (LogicalPlan) leaf.children().head();
    if (leaf.output().isEmpty()) return null;
    return new ExprId(((Attribute) leaf.output().head()).exprId().id(), OWN_IDS);
  }

  // The plan with the column as its last one.
  private static LogicalPlan shown(LogicalPlan plan) {
    if (plan instanceof LogicalRelation) return scanned((LogicalRelation) plan);
    if (plan instanceof StreamingExecutionRelation) return followed((StreamingExecutionRelation) plan);
    ArrayList children = new ArrayList();
    Attribute last = null;
    for (Iterator i = Scala.iterator(plan.children()); i.hasNext(); ) {
      LogicalPlan child = shown((LogicalPlan) i.next());
      last = (Attribute) child.output().last();
      children.add(child);
    }
    if (plan instanceof Project) {
      Project made = new Project(Scala.appended(((Project) plan).projectList(), last), (LogicalPlan) children.get(0));
      made.copyTagsFrom(plan);
      return made;
    }
    return (LogicalPlan) plan.withNewChildren(Scala.seq(children));
  }

  private static LogicalPlan scanned(LogicalRelation relation) {
    Attribute known = (Attribute) relation.metadataOutput().head();
    LogicalPlan scan = relation.withMetadataColumns();
    ArrayList columns = new ArrayList();
    for (Iterator i = Scala.iterator(relation.output()); i.hasNext(); ) {
      Attribute one = (Attribute) i.next();
      if (!one.exprId().equals(known.exprId())) columns.add(one);
    }
    ScanFormat format = (ScanFormat) ((HadoopFsRelation) relation.relation()).fileFormat();
    columns.add(alias(format.isTracked() ? tracked(format, known) : (Expression) known));
    Project made = new Project(Scala.seq(columns), scan);
    // Otherwise Spark would resolve the scan's own column instead of the computed one.
    made.setTagValue(Project.hiddenOutputTag(), none());
    return made;
  }

  private static LogicalPlan followed(StreamingExecutionRelation relation) {
    Followed source = ((Followed) relation.source()).withMetadata();
    LogicalPlan made = StreamingExecutionRelation$.MODULE$.apply(source, source.session());
    ArrayList columns = new ArrayList();
    Iterator old = Scala.iterator(relation.output());
    for (Iterator i = Scala.iterator(made.output()); old.hasNext(); ) {
      Attribute was = (Attribute) old.next();
      columns.add(
          new Alias((Attribute) i.next(), was.name(), was.exprId(), none(), Option.apply(was.metadata()), none()));
    }
    columns.add(made.output().last());
    return new Project(Scala.seq(columns), made);
  }

  // Spark's fields and those of row tracking. A rewritten row's id and version are stored; those of
  // other rows are computed from the file and the row's position (protocol: "Reader Requirements
  // for Row Tracking").
  private static Expression tracked(ScanFormat format, Attribute known) {
    StructType type = (StructType) known.dataType();
    ArrayList parts = new ArrayList();
    StructField[] fields = format.hiddenType().fields();
    for (int n = 0; n < fields.length; n++) {
      String name = fields[n].name();
      parts.add(Literal$.MODULE$.apply(name));
      Expression value;
      if (name.equals(ScanFormat.ROW_ID)) {
        Expression base = field(type, known, ScanFormat.BASE_ROW_ID);
        Expression fresh = new Add(base, field(type, known, ScanFormat.ROW_INDEX));
        value = known(stored(type, known, ScanFormat.STORED_ROW_ID, fresh), name);
      } else if (name.equals(ScanFormat.ROW_COMMIT_VERSION)) {
        Expression fresh = field(type, known, ScanFormat.DEFAULT_ROW_COMMIT_VERSION);
        value = known(stored(type, known, ScanFormat.STORED_ROW_COMMIT_VERSION, fresh), name);
      } else if (name.equals(ScanFormat.BASE_ROW_ID) || name.equals(ScanFormat.DEFAULT_ROW_COMMIT_VERSION)) {
        value = known(field(type, known, name), name);
      } else value = field(type, known, name);
      parts.add(value);
    }
    return new CreateNamedStruct(Scala.seq(parts));
  }

  private static Expression stored(StructType type, Attribute of, String name, Expression fresh) {
    if (!hasField(type, name)) return fresh;
    ArrayList either = new ArrayList();
    either.add(field(type, of, name));
    either.add(fresh);
    return new Coalesce(Scala.seq(either));
  }

  // A file without a base row id violates the protocol: fails instead of returning a wrong id.
  private static Expression known(Expression value, String name) {
    ArrayList path = new ArrayList();
    path.add("the log has no row tracking for the file of a row, so that it has no " + NAME + "." + name);
    return new AssertNotNull(value, Scala.seq(path));
  }

  private static Expression field(StructType type, Attribute of, String name) {
    return new GetStructField(of, type.fieldIndex(name), Option.apply(name));
  }

  private static boolean hasField(StructType type, String name) {
    return type.getFieldIndex(name).isDefined();
  }

  private static Alias alias(Expression value) {
    return new Alias(value, NAME, NamedExpression$.MODULE$.newExprId(), none(), Option.apply(Metadata.empty()), none());
  }

  private static Metadata metadata() {
    return FileSourceMetadataAttribute$.MODULE$.metadata(NAME);
  }

  private static boolean isMetadata(Attribute one) {
    return MetadataAttribute$.MODULE$.isValid(one.metadata()) && FileSourceMetadataAttribute$.MODULE$.isValid(one.metadata());
  }

  private boolean hasOutput(String name) {
    for (Iterator i = Scala.iterator(output()); i.hasNext(); ) {
      String other = ((Attribute) i.next()).name();
      if (SQLConf.get().caseSensitiveAnalysis() ? other.equals(name) : other.equalsIgnoreCase(name)) return true;
    }
    return false;
  }

  private static Seq none() {
    return Scala.seq(Collections.emptyList());
  }

  private static Seq single(Object item) {
    return Scala.seq(Collections.singletonList(item));
  }
}
