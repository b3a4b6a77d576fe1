//! What a schedule is made of, as its seed decides: who takes part, how the table is set up, how
//! bad the store is.

use crate::chance::Chance;
use crate::planted::Bug;

/// What an actor does, again whenever it crashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Commits.
    Writer,
    /// Opens versions and compares them with the model.
    Reader,
    /// Writes checkpoints and compactions.
    Checkpointer,
    /// Deletes what the log no longer promises.
    Cleaner,
    /// Publishes commits of a catalog's table.
    Publisher,
}

/// The settings of one schedule.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The actors and how many turns each has.
    pub actors: Vec<(Role, usize)>,
    /// Failures of the store in a thousand calls.
    pub failures: u64,
    /// Crashes in a thousand calls.
    pub crashes: u64,
    /// Jumps of the clock by a day in a thousand calls.
    pub jumps: u64,
    /// Objects of a page of a listing.
    pub page: usize,
    /// Whether writers share an application's id, as a zombie and its successor do.
    pub shared_application: bool,
    /// Whether the table is there before the actors begin.
    pub begun: bool,
    /// The catalog that decides the table's commits, if one does.
    pub catalog: Option<CatalogScenario>,
    /// Properties of the table.
    pub properties: Vec<(&'static str, String)>,
    /// The bug that is planted in this schedule.
    pub bug: Option<Bug>,
}

/// The settings of a catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatalogScenario {
    /// The largest inline commit.
    pub inline_bytes: u64,
    /// How many unpublished commits it holds.
    pub most_held: usize,
    /// Whether its clients report what they published at once.
    pub reports: bool,
}

/// How long tombstones and old versions are kept in simulations, as the tables' properties say.
pub const RETENTION_MS: i64 = 24 * 3600 * 1000;

impl Scenario {
    /// What this stream of chance decides.
    pub fn draw(chance: &mut Chance, bug: Option<Bug>) -> Self {
        // Days have to pass, and others to go on meanwhile, before it does any harm.
        let nights = bug == Some(Bug::SleeperTrusted);
        let mut actors = vec![(Role::Writer, if nights { 6 } else { 3 }); 3];
        actors.push((Role::Reader, 3));
        if chance.happens(200) {
            actors.push((Role::Checkpointer, 3));
        }
        let cleans = chance.happens(200) || nights;
        if cleans {
            actors.push((Role::Cleaner, 3));
            actors.push((Role::Checkpointer, 2));
        }
        let day = || "interval 1 days".to_owned();
        let mut properties = vec![
            ("delta.enableDeletionVectors", "true".to_owned()),
            ("delta.logRetentionDuration", day()),
            ("delta.deletedFileRetentionDuration", day()),
            (
                "delta.checkpointInterval",
                chance.one(&["3", "5", "100", "100"]).to_owned(),
            ),
        ];
        if chance.happens(500) {
            properties.push(("delta.checkpointPolicy", "v2".to_owned()));
        }
        if chance.happens(200) {
            properties.push(("delta.enableInCommitTimestamps", "true".to_owned()));
        }
        let managed = match bug {
            Some(bug) => bug.is_of_catalogs(),
            None => chance.happens(400),
        };
        let catalog = managed.then(|| CatalogScenario {
            inline_bytes: chance.one(&[0, 0, 700, 1 << 20]),
            most_held: chance.one(&[1, 2, 10]),
            reports: chance.happens(400),
        });
        if managed {
            actors.push((Role::Publisher, 3));
        }
        Scenario {
            actors,
            failures: chance.one(&[0, 10, 30, 80]),
            crashes: chance.one(&[0, 3, 10]),
            jumps: match (cleans, nights) {
                (_, true) => chance.one(&[50, 100]),
                (true, _) => chance.one(&[5, 15, 50]),
                (false, _) => 0,
            },
            page: chance.one(&[1, 3, 1000]),
            shared_application: chance.happens(300),
            begun: !chance.happens(120) || managed,
            catalog,
            properties,
            bug,
        }
    }
}
