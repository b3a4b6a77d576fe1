//! What the file index of Spark asks while it plans, and what it is answered. The JVM sends one
//! text, of fields between NUL characters, and takes a byte array, a string or null: both are made
//! and read here only.

use std::collections::BTreeMap;

use deltaplane_error::{Error, Result};

use deltaplane_log::Snapshot;
use serde::{Deserialize, Serialize};

use crate::blob;
use crate::plan::EncodedPlan;

/// What the optimiser takes beside the files of a scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Estimates {
    /// Their bytes alone.
    Bytes,
    /// Also their rows.
    Rows,
    /// Also statistics of columns.
    Columns,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Whether the newest version is another one than that of the last such question.
    Changed,
    /// The files of a scan, before Spark asks for them: for the optimiser.
    Prepare(Estimates),
    /// Bytes of all files.
    Size,
    /// URIs of all files.
    Files,
    /// The files of a scan.
    List,
}

impl Asked {
    const NAMES: [(&'static str, Asked); 7] = [
        ("changed", Asked::Changed),
        ("prepare", Asked::Prepare(Estimates::Bytes)),
        ("prepare with rows", Asked::Prepare(Estimates::Rows)),
        ("prepare with statistics", Asked::Prepare(Estimates::Columns)),
        ("size", Asked::Size),
        ("files", Asked::Files),
        ("list", Asked::List),
    ];

    fn parse(name: &str) -> Result<Self> {
        let known = Self::NAMES.iter().find(|(known, _)| *known == name);
        let unknown = || Error::internal(format!("Spark's file index asked something unknown, {name:?}"));
        known.map(|(_, asked)| *asked).ok_or_else(unknown)
    }

    /// Its name, without what it takes.
    pub fn name(self) -> &'static str {
        match self {
            Asked::Changed => "changed",
            Asked::Prepare(_) => "prepare",
            Asked::Size => "size",
            Asked::Files => "files",
            Asked::List => "list",
        }
    }
}

/// A question of the file index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// What is asked.
    pub asked: Asked,
    /// The query that is planned; none outside of a query. All its scans of a table read one
    /// version.
    pub query: Option<String>,
    /// The session's time zone, by which filters compare times.
    pub zone: String,
    /// The version for which the JVM has an answer to the same question.
    pub known_version: Option<u64>,
    /// Catalyst's filters, each as `Expression.toJSON`.
    pub filters: Vec<String>,
}

impl Question {
    /// From the JVM's text: what is asked, the query, the time zone, the known version, and the
    /// filters.
    ///
    /// # Errors
    /// `Internal` for a text that this build's Java classes don't make.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = |what: &str| Error::internal(format!("a question of Spark's file index {what}: {text:?}"));
        let mut fields = text.split('\0');
        let mut field = || fields.next().ok_or_else(|| wrong("has too few fields"));
        let (asked, query, zone, known) = (field()?, field()?, field()?, field()?);
        let known_version = match known {
            "" => None,
            number => Some(number.parse().map_err(|_| wrong("knows a version that is no number"))?),
        };
        Ok(Question {
            asked: Asked::parse(asked)?,
            query: (!query.is_empty()).then(|| query.to_owned()),
            zone: zone.to_owned(),
            known_version,
            filters: fields.map(str::to_owned).collect(),
        })
    }
}

/// A question in plain values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename = "SparkQuestion")]
pub struct PlainQuestion {
    /// `changed`, `prepare`, `size`, `files` or `list`.
    pub asked: String,
    /// Whether the optimiser takes statistics of columns.
    pub statistics: bool,
    /// The query that is planned; none outside of a query.
    pub query: Option<String>,
    /// The session's time zone.
    pub zone: String,
    /// The version for which the JVM has an answer to the same question.
    pub known_version: Option<u64>,
    /// Catalyst's filters, each as `Expression.toJSON`.
    pub filters: Vec<String>,
}

impl From<Question> for PlainQuestion {
    fn from(question: Question) -> Self {
        PlainQuestion {
            asked: question.asked.name().to_owned(),
            statistics: question.asked == Asked::Prepare(Estimates::Columns),
            query: question.query,
            zone: question.zone,
            known_version: question.known_version,
            filters: question.filters,
        }
    }
}

/// Statistics of a column for Spark's optimiser; values are texts as Spark's catalog has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnStatistics {
    /// The column's name in the relation.
    pub column: String,
    /// How many different values it has.
    pub distinct: Option<u64>,
    /// Its least value.
    pub low: Option<String>,
    /// Its greatest value.
    pub high: Option<String>,
    /// How many nulls it has.
    pub nulls: u64,
}

/// Statistics of a column in plain values: nulls, distinct values, least value, greatest value.
pub type PlainStatistics = (u64, Option<u64>, Option<String>, Option<String>);

impl From<(String, PlainStatistics)> for ColumnStatistics {
    fn from((column, (nulls, distinct, low, high)): (String, PlainStatistics)) -> Self {
        ColumnStatistics {
            column,
            distinct,
            low,
            high,
            nulls,
        }
    }
}

/// The files of a scan with what `Found.java` takes beside them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundFiles<'a> {
    /// What the plan of the query shows of the scan.
    pub name: String,
    /// The table's version.
    pub version: u64,
    /// How many of the filters were understood.
    pub understood: usize,
    /// How many files there are.
    pub files: usize,
    /// Whether a Spark job found them.
    pub by_job: bool,
    /// Their bytes.
    pub size_bytes: u64,
    /// Their rows, where every file says.
    pub rows: Option<u64>,
    /// Statistics of columns.
    pub columns: Vec<ColumnStatistics>,
    /// The files themselves, as [`crate::plan::EncodedPlan`] has them.
    pub blob: &'a [u8],
}

/// An answer to the file index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer<'a> {
    /// The answer that the JVM has is still right.
    Known,
    /// The optimiser does without: Spark asks for the files later.
    Unprepared,
    /// Whether there is another version.
    Changed(bool),
    /// Bytes of all files.
    Size(u64),
    /// URIs of all files.
    Files(Vec<String>),
    /// The files of a scan.
    Found(FoundFiles<'a>),
}

/// An answer as the JVM takes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JvmValue {
    /// `null`.
    Null,
    /// A `String`.
    Text(String),
    /// A `byte[]`.
    Bytes(Vec<u8>),
}

impl Answer<'_> {
    /// As the JVM takes it.
    ///
    /// # Errors
    /// `UnsupportedFeature` where an array of the JVM can't hold it.
    pub fn to_jvm(&self) -> Result<JvmValue> {
        Ok(match self {
            Answer::Known => JvmValue::Bytes(Vec::new()),
            Answer::Unprepared => JvmValue::Null,
            Answer::Changed(changed) => JvmValue::Text(if *changed { "1" } else { "0" }.to_owned()),
            Answer::Size(bytes) => JvmValue::Text(java_long(*bytes).to_string()),
            Answer::Files(uris) => JvmValue::Text(uris.join("\0")),
            Answer::Found(files) => JvmValue::Bytes(files.encode()?),
        })
    }
}

impl<'a> FoundFiles<'a> {
    /// The files of a plan of this version, with statistics by column.
    pub fn of(
        snapshot: &Snapshot,
        plan: &'a EncodedPlan,
        statistics: BTreeMap<String, PlainStatistics>,
        by_job: bool,
    ) -> Self {
        let (uri, version) = (snapshot.store().location().to_uri(), snapshot.version());
        FoundFiles {
            name: format!("`{uri}` version {version}, {} of {} files", plan.files, plan.considered),
            version,
            understood: plan.understood,
            files: plan.files,
            by_job,
            size_bytes: plan.size_bytes,
            rows: plan.rows,
            columns: statistics.into_iter().map(Into::into).collect(),
            blob: &plan.blob,
        }
    }

    /// The length of the texts before the files, those texts, and the files.
    fn encode(&self) -> Result<Vec<u8>> {
        let by_job = if self.by_job { "1" } else { "" };
        let mut head = vec![
            self.name.clone(),
            self.version.to_string(),
            self.understood.to_string(),
            self.files.to_string(),
            by_job.to_owned(),
            java_long(self.size_bytes).to_string(),
            self.rows.map_or(-1, java_long).to_string(),
        ];
        for column in &self.columns {
            head.push(column.column.clone());
            let distinct = column.distinct.map(|count| count.to_string());
            let values = [distinct, column.low.clone(), column.high.clone()];
            head.extend(values.map(Option::unwrap_or_default));
            head.push(column.nulls.to_string());
        }
        let mut out = Vec::with_capacity(self.blob.len() + 256);
        blob::block(&mut out, head.join("\0").as_bytes())?;
        out.extend_from_slice(self.blob);
        Ok(out)
    }
}

/// The number, or the JVM's greatest long.
fn java_long(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use deltaplane_error::Kind;

    use super::*;

    #[test]
    fn a_question_has_its_fields_and_any_number_of_filters() {
        let question = Question::parse("prepare with statistics\x007\0Europe/Berlin\x0042\0[1]\0[2]").unwrap();
        let expected = Question {
            asked: Asked::Prepare(Estimates::Columns),
            query: Some("7".to_owned()),
            zone: "Europe/Berlin".to_owned(),
            known_version: Some(42),
            filters: vec!["[1]".to_owned(), "[2]".to_owned()],
        };
        assert_eq!(question, expected);
        let bare = Question::parse("size\0\0UTC\0").unwrap();
        assert_eq!(
            (bare.asked, bare.query, bare.known_version, bare.filters),
            (Asked::Size, None, None, vec![])
        );
        for (name, asked) in Asked::NAMES {
            assert_eq!(Question::parse(&format!("{name}\0\0UTC\0")).unwrap().asked, asked);
        }
    }

    #[test]
    fn every_question_of_the_java_class_is_known() {
        let java = include_str!("../../../python/deltaplane/spark/jvm/java/DeltaplaneFileIndex.java");
        let asks = |line: &&str| {
            ["String kind =", "ask(\"", "question(\""]
                .iter()
                .any(|call| line.contains(call))
        };
        let literals = java
            .lines()
            .filter(asks)
            .flat_map(|line| line.split('"').skip(1).step_by(2));
        let asked: std::collections::BTreeSet<&str> = literals.filter(|text| text.len() > 1).collect();
        assert_eq!(asked, Asked::NAMES.into_iter().map(|(name, _)| name).collect());
    }

    #[test]
    fn a_text_that_is_no_question_is_an_internal_error() {
        for text in ["", "list", "list\0\0UTC", "weather\0\0UTC\0", "list\0\0UTC\0newest"] {
            assert_eq!(Question::parse(text).unwrap_err().kind(), Kind::Internal, "{text:?}");
        }
    }

    #[test]
    fn answers_are_the_values_that_the_jvm_takes() {
        let text = |text: &str| JvmValue::Text(text.to_owned());
        assert_eq!(Answer::Known.to_jvm().unwrap(), JvmValue::Bytes(vec![]));
        assert_eq!(Answer::Unprepared.to_jvm().unwrap(), JvmValue::Null);
        assert_eq!(Answer::Changed(true).to_jvm().unwrap(), text("1"));
        assert_eq!(Answer::Changed(false).to_jvm().unwrap(), text("0"));
        assert_eq!(Answer::Size(u64::MAX).to_jvm().unwrap(), text("9223372036854775807"));
        assert_eq!(Answer::Files(vec![]).to_jvm().unwrap(), text(""));
        assert_eq!(
            Answer::Files(vec!["a".to_owned(), "b".to_owned()]).to_jvm().unwrap(),
            text("a\0b")
        );
    }

    #[test]
    fn found_files_come_after_what_is_known_of_them() {
        let column = ColumnStatistics {
            column: "id".to_owned(),
            distinct: None,
            low: Some("1".to_owned()),
            high: None,
            nulls: 3,
        };
        let found_files = FoundFiles {
            name: "`t` version 5".to_owned(),
            version: 5,
            understood: 1,
            files: 2,
            by_job: true,
            size_bytes: 100,
            rows: None,
            columns: vec![column],
            blob: b"blob",
        };
        let head = "`t` version 5\x005\x001\x002\x001\x00100\0-1\0id\0\x001\0\x003".as_bytes();
        let length = i32::try_from(head.len()).unwrap().to_be_bytes();
        let expected = [&length[..], head, b"blob"].concat();
        assert_eq!(Answer::Found(found_files).to_jvm().unwrap(), JvmValue::Bytes(expected));
    }
}
