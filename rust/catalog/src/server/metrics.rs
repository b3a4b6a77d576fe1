//! Counts and durations of requests, as Prometheus reads them.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Upper bounds of the histogram's buckets, in seconds.
const BUCKETS: &[f64] = &[0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 2.0, 10.0];

#[derive(Default)]
struct Operation {
    statuses: BTreeMap<u16, u64>,
    /// Requests up to each bound, not summed.
    buckets: Vec<u64>,
    seconds: f64,
}

/// The counters of a server. Operations are routes, so their number is bounded.
#[derive(Default)]
pub(super) struct Metrics {
    operations: Mutex<BTreeMap<String, Operation>>,
}

impl Metrics {
    pub(super) fn count(&self, method: &str, route: &str, status: u16, took: Duration) {
        let standard = ["GET", "HEAD", "POST", "DELETE", "PATCH", "PUT"];
        let method = if standard.contains(&method) { method } else { "OTHER" };
        let seconds = took.as_secs_f64();
        let index = BUCKETS
            .iter()
            .position(|bound| seconds <= *bound)
            .unwrap_or(BUCKETS.len());
        let mut operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let operation = operations
            .entry(format!("method=\"{method}\",route=\"{route}\""))
            .or_default();
        *operation.statuses.entry(status).or_default() += 1;
        operation.buckets.resize(BUCKETS.len() + 1, 0);
        if let Some(bucket) = operation.buckets.get_mut(index) {
            *bucket += 1;
        }
        operation.seconds += seconds;
    }

    /// Prometheus' text form.
    pub(super) fn text(&self) -> String {
        let operations = self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::from("# TYPE deltaplane_catalog_requests_total counter\n");
        for (labels, operation) in operations.iter() {
            for (status, count) in &operation.statuses {
                let _ = writeln!(
                    text,
                    "deltaplane_catalog_requests_total{{{labels},status=\"{status}\"}} {count}"
                );
            }
        }
        text.push_str("# TYPE deltaplane_catalog_request_seconds histogram\n");
        for (labels, operation) in operations.iter() {
            let mut sum = 0;
            for (index, count) in operation.buckets.iter().enumerate() {
                sum += count;
                let bound = BUCKETS.get(index).map_or_else(|| "+Inf".to_owned(), f64::to_string);
                let _ = writeln!(
                    text,
                    "deltaplane_catalog_request_seconds_bucket{{{labels},le=\"{bound}\"}} {sum}"
                );
            }
            let _ = writeln!(
                text,
                "deltaplane_catalog_request_seconds_sum{{{labels}}} {}",
                operation.seconds
            );
            let _ = writeln!(text, "deltaplane_catalog_request_seconds_count{{{labels}}} {sum}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_sums_up_to_their_bound() {
        let metrics = Metrics::default();
        metrics.count("GET", "/x", 200, Duration::from_micros(500));
        metrics.count("GET", "/x", 404, Duration::from_millis(4));
        metrics.count("GET\"}", "/x", 200, Duration::from_secs(60));
        let text = metrics.text();
        for line in [
            "deltaplane_catalog_requests_total{method=\"GET\",route=\"/x\",status=\"404\"} 1",
            "deltaplane_catalog_request_seconds_bucket{method=\"GET\",route=\"/x\",le=\"0.001\"} 1",
            "deltaplane_catalog_request_seconds_bucket{method=\"GET\",route=\"/x\",le=\"0.005\"} 2",
            "deltaplane_catalog_request_seconds_bucket{method=\"OTHER\",route=\"/x\",le=\"10\"} 0",
            "deltaplane_catalog_request_seconds_bucket{method=\"OTHER\",route=\"/x\",le=\"+Inf\"} 1",
        ] {
            assert!(
                text.lines().any(|printed| printed == line),
                "{line} is missing in\n{text}"
            );
        }
    }
}
