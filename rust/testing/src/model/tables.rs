//! Transactions over two tables of one catalog as states and steps: three writers, of which each
//! can die at any step; requests to the catalog are lost, late, repeated or left without an answer.

use std::fmt;

const WRITERS: usize = 3;
const TABLES: usize = 2;
const NAMES: [&str; WRITERS] = ["A", "B", "C"];
/// What the writers do: which tables each writes, and the rows of which tables it has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cast {
    /// A reads and replaces all rows of both tables, B adds to the first and reads the second, C
    /// adds to both blindly.
    Mixed,
    /// A adds to both tables blindly, B adds to the first and reads the second, C adds to the
    /// second and reads the first.
    Skewed,
}

impl Cast {
    /// All of them.
    pub const ALL: [Cast; 2] = [Cast::Mixed, Cast::Skewed];

    fn writes(self, w: usize) -> [bool; TABLES] {
        match (self, w) {
            (_, 1) => [true, false],
            (Cast::Skewed, 2) => [false, true],
            _ => [true, true],
        }
    }

    fn reads(self, w: usize) -> [bool; TABLES] {
        match (self, w) {
            (Cast::Mixed, 0) => [true, true],
            (_, 1) => [false, true],
            (Cast::Skewed, 2) => [true, false],
            _ => [false, false],
        }
    }
}

/// Version 0 and one for each writer; a mistaken writer may take one more.
const MOST: usize = 5;
/// Attempts of one writer: one more than the others can win, and one for a mistake.
const ROUNDS: u8 = 4;

/// A rule that is left out, to see that the search notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupMistake {
    /// The catalog decides one table after the other.
    DecidedOneByOne,
    /// The version of a table that is only read isn't compared.
    ReadsUnchecked,
    /// Tables are loaded one after the other.
    LoadedOneByOne,
    /// A transaction without an answer that isn't there counts as failed.
    UnclearTakenForLost,
    /// A ratified transaction whose answer was lost isn't recognised.
    OwnCommitsNotKnown,
    /// A loser goes on without looking at the winners.
    WinnersUnchecked,
    /// Staged commits are deleted before the outcome is looked up.
    StagedDeletedEarly,
    /// Data files are deleted although the outcome is unclear.
    DataDeletedUnclear,
}

impl GroupMistake {
    /// All of them.
    pub const ALL: [GroupMistake; 8] = [
        GroupMistake::DecidedOneByOne,
        GroupMistake::ReadsUnchecked,
        GroupMistake::LoadedOneByOne,
        GroupMistake::UnclearTakenForLost,
        GroupMistake::OwnCommitsNotKnown,
        GroupMistake::WinnersUnchecked,
        GroupMistake::StagedDeletedEarly,
        GroupMistake::DataDeletedUnclear,
    ];
}

type Versions = [u8; TABLES];

/// Where a writer is; `base` has the versions that it builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Writer {
    #[default]
    Idle,
    /// Loaded the first table.
    Loading(u8),
    /// Stages its commits, then proposes them.
    Ready {
        base: Versions,
        round: u8,
    },
    /// The first table is decided; only by mistake.
    Half {
        base: Versions,
        round: u8,
    },
    /// The catalog failed, or said that a version is taken.
    Asking {
        base: Versions,
        round: u8,
        failed: bool,
    },
    /// Lost: deletes what it staged.
    Discarding {
        base: Versions,
        round: u8,
    },
    /// Looks at the winners of this table, and later ones.
    Following {
        base: Versions,
        round: u8,
        table: u8,
    },
    Committed,
    Refused,
    Unclear,
    Dead,
}

/// A commit: its writer, and the attempt that staged it.
type By = Option<(u8, u8)>;

/// One state of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tables {
    cast: Cast,
    writers: [Writer; WRITERS],
    /// The versions that each transaction loaded.
    read: [Option<Versions>; WRITERS],
    /// The newest versions when each was ratified.
    ratified_on: [Option<Versions>; WRITERS],
    history: [[By; MOST]; TABLES],
    length: [u8; TABLES],
    published: [u8; TABLES],
    /// The attempt whose staged commit is there.
    staged: [[Option<u8>; TABLES]; WRITERS],
    /// Whether its data files were deleted.
    deleted: [bool; WRITERS],
    late: [Option<(Versions, u8)>; WRITERS],
}

/// What happens between two states: who, what, which versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TablesStep(&'static str, &'static str, Versions);

impl fmt::Display for TablesStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {:?}", self.0, self.1, self.2)
    }
}

type Steps = Vec<(TablesStep, Tables)>;

impl Tables {
    /// The first state: version 0 of both tables, published, and nobody under way.
    pub fn first(cast: Cast) -> Self {
        Tables {
            cast,
            writers: [Writer::Idle; WRITERS],
            read: [None; WRITERS],
            ratified_on: [None; WRITERS],
            history: [[None; MOST]; TABLES],
            length: [1; TABLES],
            published: [1; TABLES],
            staged: [[None; TABLES]; WRITERS],
            deleted: [false; WRITERS],
            late: [None; WRITERS],
        }
    }

    fn newest(&self) -> Versions {
        self.length.map(|length| length - 1)
    }

    fn with(&self, w: usize, writer: Writer) -> Tables {
        let mut next = *self;
        next.writers[w] = writer;
        next
    }

    fn refused(&self, w: usize) -> Tables {
        let mut next = self.with(w, Writer::Refused);
        next.deleted[w] = true;
        next
    }

    /// Every state that may come next, and by whose step.
    pub fn steps(&self, mistake: Option<GroupMistake>) -> Steps {
        let mut out = Vec::new();
        for w in 0..WRITERS {
            self.writer_steps(w, mistake, &mut out);
            self.late_steps(w, mistake, &mut out);
        }
        for table in 0..TABLES {
            self.publish(table, &mut out);
        }
        out
    }

    fn writer_steps(&self, w: usize, mistake: Option<GroupMistake>, out: &mut Steps) {
        let name = NAMES[w];
        match self.writers[w] {
            Writer::Idle if mistake == Some(GroupMistake::LoadedOneByOne) => {
                let first = self.newest()[0];
                out.push((
                    TablesStep(name, "loads the first table at", [first, 0]),
                    self.with(w, Writer::Loading(first)),
                ));
            }
            Writer::Idle => self.load(w, self.newest(), out),
            Writer::Loading(first) => self.load(w, [first, self.newest()[1]], out),
            Writer::Ready { base, round } => self.ready(w, base, round, mistake, out),
            Writer::Half { base, round } => {
                let next = match self.length[1] == base[1] + 1 {
                    true => self.ratify_table(w, 1, round).with(w, Writer::Committed),
                    false => self.refused(w),
                };
                out.push((TablesStep(name, "has the second table decided on", base), next));
            }
            Writer::Asking { base, round, failed } => self.asking(w, base, round, failed, mistake, out),
            Writer::Discarding { base, round } => {
                let mut next = self.with(w, Writer::Following { base, round, table: 0 });
                next.staged[w] = [None; TABLES];
                out.push((TablesStep(name, "deletes its staged commits on", base), next));
            }
            Writer::Following { base, round, table } => self.following(w, base, round, table, mistake, out),
            Writer::Committed | Writer::Refused | Writer::Unclear | Writer::Dead => return,
        }
        out.push((TablesStep(name, "dies at", self.newest()), self.with(w, Writer::Dead)));
    }

    fn load(&self, w: usize, base: Versions, out: &mut Steps) {
        let mut next = self.with(w, Writer::Ready { base, round: 0 });
        next.read[w] = Some(base);
        out.push((TablesStep(NAMES[w], "loads", base), next));
    }

    fn ready(&self, w: usize, base: Versions, round: u8, mistake: Option<GroupMistake>, out: &mut Steps) {
        let unstaged = (0..TABLES).filter(|t| self.cast.writes(w)[*t] && self.staged[w][*t] != Some(round));
        let mut all_staged = true;
        for table in unstaged {
            all_staged = false;
            let mut next = *self;
            next.staged[w][table] = Some(round);
            out.push((TablesStep(NAMES[w], "stages a commit on", base), next));
        }
        if all_staged {
            self.propose(w, base, round, mistake, out);
        }
    }

    fn propose(&self, w: usize, base: Versions, round: u8, mistake: Option<GroupMistake>, out: &mut Steps) {
        let name = NAMES[w];
        let asking = |failed| Writer::Asking { base, round, failed };
        let mut lost = self.with(w, asking(true));
        out.push((TablesStep(name, "loses its request on", base), lost));
        if self.late[w].is_none() {
            lost.late[w] = Some((base, round));
            out.push((
                TablesStep(name, "gets an error as answer, and its late request is on", base),
                lost,
            ));
        }
        if mistake == Some(GroupMistake::DecidedOneByOne) && self.cast.writes(w) == [true; TABLES] {
            let next = match self.length[0] == base[0] + 1 {
                true => self.ratify_table(w, 0, round).with(w, Writer::Half { base, round }),
                false => self.with(w, asking(false)),
            };
            out.push((TablesStep(name, "has the first table decided on", base), next));
            return;
        }
        match self.decided(w, base, round, mistake) {
            Some(ratified) => {
                out.push((
                    TablesStep(name, "is ratified on", base),
                    ratified.with(w, Writer::Committed),
                ));
                out.push((
                    TablesStep(name, "gets an error as answer, and is ratified on", base),
                    ratified.with(w, asking(true)),
                ));
            }
            None => out.push((
                TablesStep(name, "gets the answer that the version is taken on", base),
                self.with(w, asking(false)),
            )),
        }
    }

    /// The catalog's decision: all commits, or nothing.
    fn decided(&self, w: usize, base: Versions, round: u8, mistake: Option<GroupMistake>) -> Option<Tables> {
        let compares = |t: usize| {
            self.cast.writes(w)[t] || (self.cast.reads(w)[t] && mistake != Some(GroupMistake::ReadsUnchecked))
        };
        let is_next = (0..TABLES).all(|t| !compares(t) || self.length[t] == base[t] + 1);
        let has_room = (0..TABLES).all(|t| usize::from(self.length[t]) < MOST);
        if !is_next || !has_room {
            return None;
        }
        let written = (0..TABLES).filter(|t| self.cast.writes(w)[*t]);
        Some(written.fold(*self, |next, table| next.ratify_table(w, table, round)))
    }

    fn ratify_table(&self, w: usize, table: usize, round: u8) -> Tables {
        let mut next = *self;
        let newest = self.newest();
        let earlier = next.ratified_on[w].get_or_insert(newest);
        earlier[table] = newest[table];
        next.history[table][usize::from(self.length[table])] = Some((w as u8, round));
        next.length[table] += 1;
        next
    }

    fn late_steps(&self, w: usize, mistake: Option<GroupMistake>, out: &mut Steps) {
        let Some((base, round)) = self.late[w] else { return };
        let mut gone = *self;
        gone.late[w] = None;
        if let Some(ratified) = gone.decided(w, base, round, mistake) {
            out.push((TablesStep(NAMES[w], "is ratified late on", base), ratified));
        }
        out.push((TablesStep(NAMES[w], "late request is dropped on", base), gone));
    }

    fn has(&self, w: usize, table: usize, round: Option<u8>) -> usize {
        let is_own = |by: &&By| matches!(by, Some((own, r)) if usize::from(*own) == w && round.is_none_or(|x| x == *r));
        self.history[table].iter().filter(is_own).count()
    }

    /// A writer loads the tables to see what became of its proposal.
    fn asking(
        &self,
        w: usize,
        base: Versions,
        round: u8,
        failed: bool,
        mistake: Option<GroupMistake>,
        out: &mut Steps,
    ) {
        let name = NAMES[w];
        if mistake == Some(GroupMistake::StagedDeletedEarly) && failed && self.staged[w] != [None; TABLES] {
            let mut next = *self;
            next.staged[w] = [None; TABLES];
            out.push((TablesStep(name, "deletes its staged commits early on", base), next));
        }
        let is_own = (0..TABLES).any(|t| self.cast.writes(w)[t] && self.has(w, t, Some(round)) > 0);
        let is_taken =
            (0..TABLES).any(|t| (self.cast.writes(w)[t] || self.cast.reads(w)[t]) && self.length[t] > base[t] + 1);
        let next = if is_own && mistake != Some(GroupMistake::OwnCommitsNotKnown) {
            self.with(w, Writer::Committed)
        } else if is_taken {
            self.with(w, Writer::Discarding { base, round })
        } else if failed && mistake == Some(GroupMistake::UnclearTakenForLost) {
            self.refused(w)
        } else {
            // Proposed again, the same.
            self.with(w, Writer::Ready { base, round })
        };
        out.push((TablesStep(name, "looks at", self.newest()), next));
        let mut unclear = self.with(w, Writer::Unclear);
        unclear.deleted[w] = mistake == Some(GroupMistake::DataDeletedUnclear);
        out.push((TablesStep(name, "can't look at", self.newest()), unclear));
    }

    fn following(
        &self,
        w: usize,
        base: Versions,
        round: u8,
        table: u8,
        mistake: Option<GroupMistake>,
        out: &mut Steps,
    ) {
        let t = usize::from(table);
        let newest = self.newest()[t];
        let winners = usize::from(base[t]) + 1..=usize::from(newest);
        let is_foreign = |by: By| by.is_some_and(|(by, _)| usize::from(by) != w);
        let clashes = self.cast.reads(w)[t] && winners.clone().any(|v| is_foreign(self.history[t][v]));
        let mut base = base;
        base[t] = newest;
        let next = if clashes && mistake != Some(GroupMistake::WinnersUnchecked) {
            self.refused(w)
        } else if t + 1 < TABLES {
            self.with(
                w,
                Writer::Following {
                    base,
                    round,
                    table: table + 1,
                },
            )
        } else if round + 1 < ROUNDS {
            self.with(w, Writer::Ready { base, round: round + 1 })
        } else {
            self.refused(w)
        };
        out.push((TablesStep(NAMES[w], "looks at the winners up to", base), next));
    }

    fn publish(&self, table: usize, out: &mut Steps) {
        let version = self.published[table];
        if version < self.length[table] && self.has_content(table, usize::from(version)) {
            let mut next = *self;
            next.published[table] += 1;
            let mut which = [0; TABLES];
            which[table] = version;
            out.push((TablesStep("publisher", "publishes", which), next));
        }
    }

    /// Whether the staged commit of an unpublished version is there.
    fn has_content(&self, table: usize, version: usize) -> bool {
        match self.history[table][version] {
            Some((w, round)) => self.staged[usize::from(w)][table] == Some(round),
            None => true,
        }
    }

    /// Whether nobody goes on.
    pub fn is_end(&self) -> bool {
        let ended = |w: &Writer| matches!(w, Writer::Committed | Writer::Refused | Writer::Unclear | Writer::Dead);
        self.writers.iter().all(ended) && self.late.iter().all(Option::is_none) && self.published == self.length
    }

    /// What must hold always.
    pub fn judge(&self) -> Result<(), String> {
        for w in 0..WRITERS {
            self.judge_writer(w)?;
        }
        for table in 0..TABLES {
            for version in usize::from(self.published[table])..usize::from(self.length[table]) {
                if !self.has_content(table, version) {
                    return Err(format!(
                        "the staged commit of version {version} of table {table} is gone"
                    ));
                }
            }
        }
        Ok(())
    }

    fn judge_writer(&self, w: usize) -> Result<(), String> {
        let name = NAMES[w];
        let counts: Vec<usize> = (0..TABLES)
            .filter(|t| self.cast.writes(w)[*t])
            .map(|t| self.has(w, t, None))
            .collect();
        let (least, most) = (counts.iter().min().copied(), counts.iter().max().copied());
        let (least, most) = (least.unwrap_or_default(), most.unwrap_or_default());
        if least != most {
            return Err(format!("{name} is in one of its tables only"));
        }
        if most > 1 {
            return Err(format!("{name} is in its tables twice"));
        }
        let may_come = self.late[w].is_some_and(|(base, round)| self.decided(w, base, round, None).is_some());
        match self.writers[w] {
            Writer::Committed if most == 0 => {
                return Err(format!("the answer to {name} says that it is committed, and it isn't"));
            }
            Writer::Refused if most > 0 || may_come => {
                return Err(format!(
                    "the answer to {name} says that it failed, and it is or may become visible"
                ));
            }
            _ => {}
        }
        if most > 0 && self.deleted[w] {
            return Err(format!("data files of {name} are gone"));
        }
        self.judge_reads(w)
    }

    /// Rows that were read are the same at the commit, and of one instant.
    fn judge_reads(&self, w: usize) -> Result<(), String> {
        let Some(read) = self.read[w] else { return Ok(()) };
        if let Some(on) = self.ratified_on[w]
            && (0..TABLES).any(|t| self.cast.reads(w)[t] && on[t] != read[t])
        {
            return Err(format!("{} read {read:?} and was ratified on {on:?}", NAMES[w]));
        }
        let saw = |other: usize, table: usize| {
            let versions = self.history[table].iter().take(usize::from(read[table]) + 1);
            versions.flatten().any(|(by, _)| usize::from(*by) == other)
        };
        let is_torn = |other: &usize| self.cast.writes(*other) == [true; TABLES] && saw(*other, 0) != saw(*other, 1);
        match (0..WRITERS).find(is_torn) {
            Some(other) => Err(format!("{} saw one table of {} only", NAMES[w], NAMES[other])),
            None => Ok(()),
        }
    }
}
