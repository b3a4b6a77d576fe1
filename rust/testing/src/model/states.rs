//! The protocol as states and steps. Version 0 is there; writers A and B read all rows and replace
//! them, C adds rows blindly. Assumed, as log retention has it: clean-up takes no version that a
//! transaction or a request under way needs.

use std::fmt;

const WRITERS: usize = 3;
const NAMES: [&str; WRITERS] = ["A", "B", "C"];
/// Those of them that read all rows.
const READERS: usize = 2;
/// Version 0 and one for each writer; a mistaken writer may take one more.
const MOST: usize = 5;
/// Clean-ups that are begun.
const CLEANINGS: u8 = 1;

/// A rule that is left out, to see that the search notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mistake {
    /// An unclear put counts as failed and is tried again at the next version.
    UnclearTriedAgain,
    /// A version that exists isn't looked at for the own id.
    OwnCommitNotKnown,
    /// A loser goes on without looking at the winners.
    WinnersUnchecked,
    /// Clean-up takes the commits after the checkpoint too.
    CleanedPastCheckpoint,
    /// Clean-up doesn't wait for transactions that began before.
    RetentionTooShort,
    /// The hint moves before the checkpoint is written.
    HintFirst,
    /// A checkpoint is named after a version newer than its content.
    CheckpointTooNew,
}

impl Mistake {
    /// All of them.
    pub const ALL: [Mistake; 7] = [
        Mistake::UnclearTriedAgain,
        Mistake::OwnCommitNotKnown,
        Mistake::WinnersUnchecked,
        Mistake::CleanedPastCheckpoint,
        Mistake::RetentionTooShort,
        Mistake::HintFirst,
        Mistake::CheckpointTooNew,
    ];
}

/// Where a writer is; `base` is the version that it builds on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Writer {
    #[default]
    Idle,
    /// About to put the version after `base`.
    Ready { base: u8 },
    /// The store failed, or said that the version after `base` exists.
    Asking { base: u8, failed: bool },
    /// Lost; looks at the winners after `base`.
    Following { base: u8 },
    /// Told its caller that it is this version.
    Committed(u8),
    /// Told its caller that it isn't in the table.
    Refused,
    /// Told its caller that it doesn't know.
    Unclear,
    /// Died.
    Dead,
}

/// Where the checkpointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
enum Checkpointer {
    #[default]
    Idle,
    Writing(u8),
    Hinting(u8),
}

/// A version's checkpoint: absent, or the versions that it holds.
type Checkpoint = Option<u8>;

/// One state of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    writers: [Writer; WRITERS],
    /// The version that each transaction read.
    read: [u8; WRITERS],
    /// Who wrote each version, as the model remembers it: version 0 nobody.
    history: [Option<u8>; MOST],
    /// How many versions there are.
    length: u8,
    /// Versions whose commit file is there.
    commits: u8,
    checkpoints: [Checkpoint; MOST],
    hint: Option<u8>,
    /// A late put of each writer.
    late: [Option<u8>; WRITERS],
    checkpointer: Checkpointer,
    /// Checkpoints that may be begun still.
    checkpoints_left: u8,
    /// The checkpoint behind which clean-up deletes.
    cleaner: Option<u8>,
    clean_rounds: u8,
    /// A commit file was written again after it had been deleted.
    rewritten: bool,
    /// Somebody wrote the same version twice, or a version after a gap.
    broken: bool,
}

impl State {
    /// The first state: version 0 and nobody under way.
    pub fn first(checkpoints: u8) -> Self {
        State {
            writers: [Writer::Idle; WRITERS],
            read: [0; WRITERS],
            history: [None; MOST],
            length: 1,
            commits: 1,
            checkpoints: [None; MOST],
            hint: None,
            late: [None; WRITERS],
            checkpointer: Checkpointer::Idle,
            checkpoints_left: checkpoints,
            cleaner: None,
            clean_rounds: 0,
            rewritten: false,
            broken: false,
        }
    }
}

/// What happens between two states: who, what, which version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step(&'static str, &'static str, u8);

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.0, self.1, self.2)
    }
}

type Steps = Vec<(Step, State)>;

impl State {
    fn newest(&self) -> u8 {
        self.length - 1
    }

    fn has_commit(&self, version: u8) -> bool {
        self.commits & (1 << version) != 0
    }

    /// Every state that may come next, and by whose step.
    pub fn steps(&self, mistake: Option<Mistake>) -> Steps {
        let mut out = Vec::new();
        for w in 0..WRITERS {
            self.writer_steps(w, mistake, &mut out);
            self.late_steps(w, &mut out);
        }
        self.checkpointer_steps(mistake, &mut out);
        self.cleaner_steps(mistake, &mut out);
        out
    }

    fn with(&self, w: usize, writer: Writer) -> State {
        let mut next = *self;
        next.writers[w] = writer;
        next
    }

    fn writer_steps(&self, w: usize, mistake: Option<Mistake>, out: &mut Steps) {
        let name = NAMES[w];
        match self.writers[w] {
            Writer::Idle => {
                let base = self.newest();
                let mut next = self.with(w, Writer::Ready { base });
                next.read[w] = base;
                out.push((Step(name, "reads version", base), next));
            }
            Writer::Ready { base } => self.put_steps(w, name, base, mistake, out),
            Writer::Asking { base, failed } => self.asked(w, name, base, failed, mistake, out),
            Writer::Following { base } => self.follow(w, name, base, mistake, out),
            Writer::Committed(_) | Writer::Refused | Writer::Unclear | Writer::Dead => return,
        }
        out.push((
            Step(name, "dies after version", self.newest()),
            self.with(w, Writer::Dead),
        ));
    }

    fn put_steps(&self, w: usize, name: &'static str, base: u8, mistake: Option<Mistake>, out: &mut Steps) {
        let version = base + 1;
        if usize::from(version) >= MOST {
            return;
        }
        let asking = |failed| Writer::Asking { base, failed };
        let mut lost = self.with(w, asking(true));
        out.push((Step(name, "loses its put of version", version), lost));
        lost.late[w] = Some(version);
        out.push((
            Step(name, "gets an error as answer, and its late put is of version", version),
            lost,
        ));
        if self.has_commit(version) {
            let next = match mistake {
                Some(Mistake::OwnCommitNotKnown) => Writer::Following { base },
                _ => asking(false),
            };
            out.push((Step(name, "finds taken version", version), self.with(w, next)));
            return;
        }
        let arrived = self.arrive(w, version);
        out.push((
            Step(name, "puts version", version),
            arrived.with(w, Writer::Committed(version)),
        ));
        out.push((
            Step(
                name,
                "gets an error as answer, and its put is there as version",
                version,
            ),
            arrived.with(w, asking(true)),
        ));
        let doubled = match mistake {
            Some(Mistake::OwnCommitNotKnown) => Writer::Following { base },
            _ => asking(false),
        };
        out.push((Step(name, "puts twice version", version), arrived.with(w, doubled)));
    }

    /// A put-if-absent arrives where the name is free.
    fn arrive(&self, w: usize, version: u8) -> State {
        let mut next = *self;
        next.commits |= 1 << version;
        if version < next.length {
            next.rewritten = true;
        } else {
            next.broken |= version != next.length;
            next.history[usize::from(version)] = Some(w as u8);
            next.length = version + 1;
        }
        next
    }

    fn late_steps(&self, w: usize, out: &mut Steps) {
        let Some(version) = self.late[w] else { return };
        let mut gone = *self;
        gone.late[w] = None;
        if !self.has_commit(version) {
            let mut arrived = self.arrive(w, version);
            arrived.late[w] = None;
            out.push((Step(NAMES[w], "late put arrives of version", version), arrived));
        }
        out.push((Step(NAMES[w], "late put is dropped of version", version), gone));
    }

    /// A writer reads the version that it tried to put.
    fn asked(&self, w: usize, name: &'static str, base: u8, failed: bool, mistake: Option<Mistake>, out: &mut Steps) {
        let version = base + 1;
        let next = if mistake == Some(Mistake::UnclearTriedAgain) && failed {
            Writer::Ready { base: self.newest() }
        } else if !self.has_commit(version) {
            // Told as unclear even where nothing is on its way: nobody can know.
            if failed { Writer::Unclear } else { Writer::Refused }
        } else if self.history[usize::from(version)] == Some(w as u8) {
            Writer::Committed(version)
        } else {
            Writer::Following { base }
        };
        out.push((Step(name, "looks at version", version), self.with(w, next)));
        out.push((Step(name, "can't read version", version), self.with(w, Writer::Unclear)));
    }

    fn follow(&self, w: usize, name: &'static str, base: u8, mistake: Option<Mistake>, out: &mut Steps) {
        let newest = self.newest();
        let winners = base + 1..=newest;
        let gone = winners.clone().any(|v| !self.has_commit(v));
        let own = |v: u8| self.history[usize::from(v)] == Some(w as u8);
        let clash = w < READERS && winners.clone().any(|v| !own(v));
        let next = match mistake {
            Some(Mistake::WinnersUnchecked) => Writer::Ready { base: newest },
            _ if gone || clash => Writer::Refused,
            _ => Writer::Ready { base: newest },
        };
        out.push((
            Step(name, "looks at the winners up to version", newest),
            self.with(w, next),
        ));
    }

    fn checkpointer_steps(&self, mistake: Option<Mistake>, out: &mut Steps) {
        let mut next = *self;
        match self.checkpointer {
            Checkpointer::Idle if self.checkpoints_left > 0 => {
                next.checkpoints_left -= 1;
                next.checkpointer = Checkpointer::Writing(self.newest());
                out.push((Step("checkpointer", "takes version", self.newest()), next));
            }
            Checkpointer::Idle => {}
            Checkpointer::Writing(version) => {
                let named = match mistake {
                    Some(Mistake::CheckpointTooNew) => self.newest(),
                    _ => version,
                };
                next.checkpointer = Checkpointer::Hinting(named);
                if mistake == Some(Mistake::HintFirst) && self.hint != Some(version) {
                    next.hint = Some(version);
                    next.checkpointer = Checkpointer::Writing(version);
                    out.push((Step("checkpointer", "writes the hint of version", version), next));
                    return self.checkpointer_dies(out);
                }
                next.checkpoints[usize::from(named)] = Some(version);
                out.push((Step("checkpointer", "writes the checkpoint of version", named), next));
                self.checkpointer_dies(out);
            }
            Checkpointer::Hinting(version) => {
                next.hint = Some(version);
                next.checkpointer = Checkpointer::Idle;
                out.push((Step("checkpointer", "writes the hint of version", version), next));
                self.checkpointer_dies(out);
            }
        }
    }

    fn checkpointer_dies(&self, out: &mut Steps) {
        let mut dead = *self;
        dead.checkpointer = Checkpointer::Idle;
        out.push((Step("checkpointer", "dies after version", self.newest()), dead));
    }

    fn cleaner_steps(&self, mistake: Option<Mistake>, out: &mut Steps) {
        let mut next = *self;
        let Some(cutoff) = self.cleaner else {
            if self.clean_rounds == CLEANINGS {
                return;
            }
            next.clean_rounds += 1;
            for cutoff in 1..self.length {
                if self.checkpoints[usize::from(cutoff)].is_some()
                    && (self.is_old(cutoff) || mistake == Some(Mistake::RetentionTooShort))
                {
                    next.cleaner = Some(match mistake {
                        Some(Mistake::CleanedPastCheckpoint) => self.newest(),
                        _ => cutoff,
                    });
                    out.push((Step("cleaner", "keeps version", cutoff), next));
                }
            }
            return;
        };
        next.cleaner = None;
        out.push((Step("cleaner", "stops or dies before version", cutoff), next));
        let oldest = (0..cutoff).find(|v| self.has_commit(*v));
        let older = (0..cutoff).find(|v| self.checkpoints[usize::from(*v)].is_some());
        let mut next = *self;
        if let Some(version) = oldest {
            next.commits &= !(1 << version);
            out.push((Step("cleaner", "deletes the commit of version", version), next));
        } else if let Some(version) = older {
            next.checkpoints[usize::from(version)] = None;
            out.push((Step("cleaner", "deletes the checkpoint of version", version), next));
        }
    }

    /// Whether nothing under way began before this version: it is past its retention.
    fn is_old(&self, version: u8) -> bool {
        let reads = self.writers.iter().filter_map(|w| match w {
            Writer::Ready { base, .. } | Writer::Asking { base, .. } | Writer::Following { base, .. } => Some(*base),
            _ => None,
        });
        let mut late = self.late.iter().flatten().copied();
        let taken = match self.checkpointer {
            Checkpointer::Writing(v) | Checkpointer::Hinting(v) => Some(v),
            Checkpointer::Idle => None,
        };
        reads.chain(taken).all(|base| base >= version) && late.all(|v| v > version)
    }

    /// Whether nobody goes on.
    pub fn is_end(&self) -> bool {
        let ended = |w: &Writer| {
            matches!(
                w,
                Writer::Committed(_) | Writer::Refused | Writer::Unclear | Writer::Dead
            )
        };
        self.writers.iter().all(ended)
            && self.late.iter().all(Option::is_none)
            && self.checkpointer == Checkpointer::Idle
            && self.cleaner.is_none()
    }

    /// What must hold always.
    pub fn judge(&self) -> Result<(), String> {
        if self.broken {
            return Err("a version follows a gap".to_owned());
        }
        if self.rewritten {
            return Err("a version that was cleaned up was written again".to_owned());
        }
        self.judge_writers()?;
        self.judge_serial()?;
        self.judge_checkpoints()
    }

    fn judge_writers(&self) -> Result<(), String> {
        for (w, writer) in self.writers.iter().enumerate() {
            let by_it = self.history.iter().filter(|by| **by == Some(w as u8)).count();
            if by_it > 1 {
                return Err(format!("writer {w} is in the table twice"));
            }
            match writer {
                Writer::Committed(v) if self.history[usize::from(*v)] != Some(w as u8) => {
                    return Err(format!("writer {w} was told version {v}, which isn't its own"));
                }
                Writer::Refused if by_it > 0 || self.late[w].is_some_and(|v| !self.has_commit(v)) => {
                    return Err(format!(
                        "writer {w} got the answer that it failed, and is or may come to be visible"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Who read all rows has seen every version before its own.
    fn judge_serial(&self) -> Result<(), String> {
        for (w, read) in self.read.iter().enumerate().take(READERS) {
            let own = self.history.iter().position(|by| *by == Some(w as u8));
            if let Some(version) = own.filter(|v| *v != usize::from(*read) + 1) {
                return Err(format!("writer {w} read version {read} and is version {version}"));
            }
        }
        Ok(())
    }

    /// The newest version can be rebuilt, and every checkpoint holds what its version holds.
    fn judge_checkpoints(&self) -> Result<(), String> {
        let mut sound = false;
        for v in 0..self.length {
            let checkpoint = self.checkpoints[usize::from(v)];
            if checkpoint.is_some_and(|content| content != v) {
                return Err(format!("checkpoint {v} holds version {checkpoint:?}"));
            }
            sound = checkpoint.is_some() || (self.has_commit(v) && (sound || v == 0));
        }
        if !sound {
            return Err(format!("version {} can't be rebuilt", self.newest()));
        }
        let led = self
            .hint
            .is_none_or(|h| (h..self.length).any(|v| self.checkpoints[usize::from(v)].is_some()));
        led.then_some(())
            .ok_or_else(|| "the hint names a checkpoint that isn't there".to_owned())
    }
}
