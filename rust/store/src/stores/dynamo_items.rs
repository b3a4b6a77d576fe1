//! The lock table's items, one per commit, with the field names of delta-spark and delta-rs. Owns
//! the requests' JSON and the meaning of the answers; sending is `dynamo_http`. `dynamo` decides
//! which item is written when.

use chrono::Utc;
use deltaplane_error::{Error, Result};
use serde_json::{Value, json};

use super::dynamo_http::{Answer, Http};

/// How long a completed item lives at least, for tables whose time-to-live is set: delta-spark's
/// default.
const KEPT_SECONDS: i64 = 24 * 60 * 60;
const CONDITION_FAILED: &str = "ConditionalCheckFailedException";

/// A commit's item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// The commit's name in the log's directory.
    pub(super) file_name: String,
    /// Its temporary file, relative to the log's directory.
    pub(super) temp_path: String,
    /// Whether the commit has been copied to its name.
    pub(super) complete: bool,
}

/// The writer that owns a commit.
pub(super) enum Claim {
    /// This call.
    Ours,
    /// Another writer, with its item.
    Theirs(Entry),
}

/// The items of one Delta table.
pub(super) struct Items {
    http: Http,
    table: String,
    /// The Delta table's path as other writers spell it: the items' partition key.
    table_path: String,
    /// Its spelling with the other one of S3's two schemes.
    other_spelling: String,
}

impl Entry {
    /// An entry that isn't complete.
    pub(super) fn new(file_name: &str, temp_path: &str) -> Self {
        Entry {
            file_name: file_name.to_owned(),
            temp_path: temp_path.to_owned(),
            complete: false,
        }
    }

    fn from_item(item: &Value) -> Option<Self> {
        let text = |name: &str| item.get(name)?.get("S")?.as_str().map(str::to_owned);
        Some(Entry {
            file_name: text("fileName")?,
            temp_path: text("tempPath")?,
            complete: text("complete")? == "true",
        })
    }
}

impl Items {
    /// `path` is bucket and path of the Delta table, `scheme` the one that its writers use.
    pub(super) fn new(http: Http, table: String, scheme: &str, path: &str) -> Self {
        let other = if scheme == "s3" { "s3a" } else { "s3" };
        Items {
            http,
            table,
            table_path: format!("{scheme}://{path}"),
            other_spelling: format!("{other}://{path}"),
        }
    }

    /// The name of the lock table.
    pub(super) fn table(&self) -> &str {
        &self.table
    }

    fn key(&self, file_name: &str) -> Value {
        json!({"tablePath": {"S": self.table_path}, "fileName": {"S": file_name}})
    }

    /// The entry of a commit.
    pub(super) async fn get(&self, file_name: &str) -> Result<Option<Entry>> {
        let request = json!({"TableName": self.table, "Key": self.key(file_name), "ConsistentRead": true});
        let answer = self.done("GetItem", &request).await?;
        answer.get("Item").map(|item| self.entry(item)).transpose()
    }

    /// The entry of the newest commit.
    pub(super) async fn newest(&self) -> Result<Option<Entry>> {
        self.newest_of(&self.table_path).await
    }

    async fn newest_of(&self, table_path: &str) -> Result<Option<Entry>> {
        let request = json!({
            "TableName": self.table,
            "KeyConditionExpression": "tablePath = :t",
            "ExpressionAttributeValues": {":t": {"S": table_path}},
            "ConsistentRead": true,
            "ScanIndexForward": false,
            "Limit": 1,
        });
        let answer = self.done("Query", &request).await?;
        let newest = answer.get("Items").and_then(|items| items.get(0));
        newest.map(|item| self.entry(item)).transpose()
    }

    /// Writes a commit's item if there is none: of all racing callers one succeeds.
    pub(super) async fn claim(&self, entry: &Entry) -> Result<Claim> {
        let request = json!({
            "TableName": self.table,
            "Item": {
                "tablePath": {"S": self.table_path},
                "fileName": {"S": entry.file_name},
                "tempPath": {"S": entry.temp_path},
                "complete": {"S": "false"},
            },
            "ConditionExpression": "attribute_not_exists(tablePath) AND attribute_not_exists(fileName)",
        });
        // An attempt without an answer may have been this call's own success; only the item can
        // tell.
        loop {
            if !self.refused("PutItem", &request).await? {
                return Ok(Claim::Ours);
            }
            match self.get(&entry.file_name).await? {
                Some(there) if there.temp_path == entry.temp_path => return Ok(Claim::Ours),
                Some(there) => return Ok(Claim::Theirs(there)),
                // The other writer deleted its item meanwhile, as delta-rs may.
                None => {}
            }
        }
    }

    /// Marks an item as complete; does nothing if it is complete already or belongs to another
    /// writer now.
    pub(super) async fn complete(&self, entry: &Entry) -> Result<()> {
        let expires = (Utc::now().timestamp() + KEPT_SECONDS).to_string();
        let request = json!({
            "TableName": self.table,
            "Key": self.key(&entry.file_name),
            "UpdateExpression": "SET complete = :done, expireTime = :expires",
            "ConditionExpression": "complete = :open AND tempPath = :temp",
            "ExpressionAttributeValues": {
                ":done": {"S": "true"},
                ":open": {"S": "false"},
                ":temp": {"S": entry.temp_path},
                ":expires": {"N": expires},
            },
        });
        self.refused("UpdateItem", &request).await.map(|_| ())
    }

    /// Two writers of one table that spell its scheme differently would not exclude each other.
    pub(super) async fn refuse_other_spelling(&self) -> Result<()> {
        if self.newest_of(&self.other_spelling).await?.is_none() || self.newest().await?.is_some() {
            return Ok(());
        }
        Err(Error::invalid_argument(format!(
            "the lock table {} has entries of this table as {} and none as {}; writers exclude each other only under one spelling, so set the option delta_dynamo_path_scheme={}",
            self.table,
            self.other_spelling,
            self.table_path,
            self.other_spelling.split(':').next().unwrap_or_default()
        )))
    }

    fn entry(&self, item: &Value) -> Result<Entry> {
        Entry::from_item(item).ok_or_else(|| {
            Error::corrupt_log(format!(
                "an item of {} in the lock table {} lacks fileName, tempPath or complete as a string; no writer of delta commits wrote it",
                self.table_path, self.table
            ))
        })
    }

    async fn done(&self, action: &str, request: &Value) -> Result<Value> {
        match self.http.send(action, request).await? {
            Answer::Done(value) => Ok(value),
            Answer::Refused(e) => Err(self.http.refusal(action, &self.table, &e)),
        }
    }

    /// Whether the request's condition failed.
    async fn refused(&self, action: &str, request: &Value) -> Result<bool> {
        match self.http.send(action, request).await? {
            Answer::Done(_) => Ok(false),
            Answer::Refused(e) if e.name == CONDITION_FAILED => Ok(true),
            Answer::Refused(e) => Err(self.http.refusal(action, &self.table, &e)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_as_delta_spark_writes_them_are_read() {
        let item = json!({
            "tablePath": {"S": "s3a://b/t"}, "fileName": {"S": "00000000000000000001.json"},
            "tempPath": {"S": ".tmp/00000000000000000001.json.u"}, "complete": {"S": "true"}, "expireTime": {"N": "1"},
        });
        let entry = Entry::from_item(&item);
        assert_eq!(
            entry.as_ref().map(|e| (e.complete, e.temp_path.as_str())),
            Some((true, ".tmp/00000000000000000001.json.u"))
        );
        assert_eq!(Entry::from_item(&json!({"complete": {"BOOL": true}})), None);
    }
}
