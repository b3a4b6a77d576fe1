//! `docs/reliability/<name>.json`: what a proof claims, and the figures that its own run counted.

use std::io;
use std::path::Path;

use serde_json::{Map, Value, json};

/// What a run says of itself.
pub struct Report {
    /// Headline.
    pub title: &'static str,
    /// What holds if nothing was found.
    pub claims: Vec<String>,
    /// What was counted, in order.
    pub figures: Vec<(String, Value)>,
    /// The command that repeats it.
    pub how: String,
}

impl Report {
    /// Writes it into the repository.
    pub fn write(&self, name: &str) -> io::Result<()> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reliability");
        std::fs::create_dir_all(&dir)?;
        let figures: Map<String, Value> = self.figures.iter().cloned().collect();
        let text = json!({"title": self.title, "claims": self.claims, "figures": figures, "how": self.how});
        std::fs::write(dir.join(format!("{name}.json")), format!("{text:#}\n"))
    }
}
