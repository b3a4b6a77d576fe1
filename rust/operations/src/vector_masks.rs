//! The deletion vectors of a snapshot's files as masks of their rows, fetched one file at a time.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanBuilder, LargeStringArray, ListArray, RecordBatch};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use deltaplane_data::Vectors;
use deltaplane_error::{Error, Result};
use deltaplane_log::{PlanColumns, Snapshot};
use deltaplane_protocol::deletion_vectors::MOST_ROWS;
use deltaplane_protocol::files::rows::FileRows;
use deltaplane_protocol::paths;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};

/// One row for each file with a vector: its URI, and for each of its rows whether it is kept.
/// `root` is the table's location.
pub fn masks(snapshot: &Snapshot, root: &str) -> (SchemaRef, BoxStream<'static, Result<RecordBatch>>) {
    let item = Arc::new(Field::new("item", DataType::Boolean, false));
    let schema = Arc::new(Schema::new(vec![
        Field::new("filepath", DataType::LargeUtf8, false),
        Field::new("selection_vector", DataType::List(item), false),
    ]));
    let vectors = Arc::new(Vectors::new(snapshot.store().clone()));
    let (schema_of_rows, root) = (schema.clone(), uri(root));
    let batches = snapshot.plan(None, PlanColumns::Logged).and_then(move |batch| {
        let (vectors, schema, root) = (vectors.clone(), schema_of_rows.clone(), root.clone());
        async move { of_batch(&batch, &vectors, schema, &root).await }
    });
    let batches = batches.try_filter(|b| futures::future::ready(b.num_rows() > 0));
    (schema, batches.boxed())
}

/// A location as a percent-encoded URI, to which the log's paths can be appended: local ones get
/// their scheme.
fn uri(root: &str) -> String {
    let Some((scheme, rest)) = root.split_once("://").filter(|_| !root.starts_with('/')) else {
        return format!("file://{}", paths::encode(root));
    };
    match rest.find('/').and_then(|slash| rest.split_at_checked(slash)) {
        Some((authority, path)) => format!("{scheme}://{authority}{}", paths::encode(path)),
        None => root.to_owned(),
    }
}

async fn of_batch(batch: &RecordBatch, vectors: &Vectors, schema: SchemaRef, root: &str) -> Result<RecordBatch> {
    let rows = FileRows::new(batch);
    let (mut uris, mut mask, mut lengths) = (Vec::new(), BooleanBuilder::new(), Vec::new());
    for row in 0..batch.num_rows() {
        let Some(vector) = rows.deletion_vector(row) else {
            continue;
        };
        let path = rows.path(row)?;
        let deleted = vectors.load(&vector).await.map_err(|e| e.with_path(path))?;
        let rest = deleted.max().map_or(0, |last| last + 1);
        let all = rows
            .num_records(row)
            .and_then(|n| u64::try_from(n).ok())
            .unwrap_or(rest);
        if all > MOST_ROWS {
            let what =
                format!("the log says that a file has {all} rows, or rows are deleted so far on: none has as many");
            return Err(Error::corrupt_log(what).with_path(path));
        }
        (0..all).for_each(|position| mask.append_value(!deleted.contains(position)));
        lengths.push(usize::try_from(all).map_err(|_| Error::internal("a file with more rows than memory"))?);
        uris.push(if path.contains(':') {
            path.to_owned()
        } else {
            format!("{root}/{path}")
        });
    }
    let DataType::List(item) = schema.field(1).data_type() else {
        return Err(Error::internal("the masks of rows aren't a list"));
    };
    let masks = ListArray::try_new(
        item.clone(),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(mask.finish()),
        None,
    );
    let masks = masks.map_err(|e| Error::internal(format!("can't make masks of rows: {e}")))?;
    let columns: Vec<ArrayRef> = vec![Arc::new(LargeStringArray::from(uris)), Arc::new(masks)];
    RecordBatch::try_new(schema, columns).map_err(|e| Error::internal(format!("can't make masks of rows: {e}")))
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn roots_are_encoded_as_paths_of_the_log() {
        for (root, encoded) in [
            ("/lake/a b%20", "file:///lake/a%20b%2520"),
            ("/lake/s3://x", "file:///lake/s3://x"),
            ("s3://lake", "s3://lake"),
            ("s3://lake/a b%20/t", "s3://lake/a%20b%2520/t"),
        ] {
            assert_eq!(uri(root), encoded);
        }
    }
}
