//! Breadth-first search over all states, so that what it finds is shortest, and back from the ends,
//! so that a state from which nobody can come to one is found too. `rust/testing/stateright` counts
//! the same states by another program.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use super::states::{Mistake, State, Step};
use super::tables::{Cast, GroupMistake, Tables, TablesStep};

/// A protocol as states and steps.
trait Protocol: Copy + Eq + Hash {
    /// A rule that can be left out.
    type Mistake: Copy;
    /// What happens between two states.
    type Step: Display;

    /// Every state that may come next.
    fn steps(&self, mistake: Option<Self::Mistake>) -> Vec<(Self::Step, Self)>;
    /// What must hold always.
    fn judge(&self) -> Result<(), String>;
    /// Whether nobody goes on.
    fn is_end(&self) -> bool;
}

macro_rules! protocol {
    ($state:ty, $step:ty, $mistake:ty) => {
        impl Protocol for $state {
            type Mistake = $mistake;
            type Step = $step;

            fn steps(&self, mistake: Option<$mistake>) -> Vec<($step, Self)> {
                <$state>::steps(self, mistake)
            }
            fn judge(&self) -> Result<(), String> {
                <$state>::judge(self)
            }
            fn is_end(&self) -> bool {
                <$state>::is_end(self)
            }
        }
    };
}

protocol!(State, Step, Mistake);
protocol!(Tables, TablesStep, GroupMistake);

/// What the search saw.
#[derive(Debug)]
pub struct Explored {
    /// States that can be reached.
    pub states: usize,
    /// Steps between them.
    pub steps: usize,
    /// The longest of the shortest ways to a state.
    pub depth: usize,
    /// States in which everybody is done.
    pub ends: usize,
    /// What is wrong, and the way there; `None` if nothing is.
    pub violation: Option<(String, Vec<String>)>,
}

/// All states that can be reached while up to this many checkpoints are begun, each judged; and
/// whether each can still come to an end.
pub fn explore(checkpoints: u8, mistake: Option<Mistake>) -> Explored {
    search(State::first(checkpoints), mistake)
}

/// All states of three transactions over two tables, each judged; and whether each can still come
/// to an end.
pub fn explore_tables(cast: Cast, mistake: Option<GroupMistake>) -> Explored {
    search(Tables::first(cast), mistake)
}

fn search<P: Protocol>(first: P, mistake: Option<P::Mistake>) -> Explored {
    let mut numbers = HashMap::from([(first, 0_u32)]);
    // Each state, the one it was found from, and how far from the first.
    let mut seen = vec![(first, 0_u32, 0_usize)];
    let mut edges = Vec::new();
    let mut out = Explored {
        states: 0,
        steps: 0,
        depth: 0,
        ends: 0,
        violation: None,
    };
    let (mut index, mut ends) = (0, Vec::new());
    while let Some((state, _, depth)) = seen.get(index).copied() {
        out.depth = depth;
        if let Err(what) = state.judge() {
            out.violation = Some((what, way(&seen, index, mistake)));
            break;
        }
        if state.is_end() {
            ends.push(index as u32);
        }
        for (_, next) in state.steps(mistake) {
            let number = *numbers.entry(next).or_insert_with(|| {
                seen.push((next, index as u32, depth + 1));
                seen.len() as u32 - 1
            });
            edges.push((number, index as u32));
        }
        index += 1;
    }
    (out.states, out.steps, out.ends) = (seen.len(), edges.len(), ends.len());
    if out.violation.is_none()
        && let Some(stuck) = without_end(seen.len(), edges, ends)
    {
        let what = "nobody can come to an end from here".to_owned();
        out.violation = Some((what, way(&seen, stuck, mistake)));
    }
    out
}

/// A state from which no end can be reached. Edges lead from a state back to one before it.
fn without_end(states: usize, mut edges: Vec<(u32, u32)>, ends: Vec<u32>) -> Option<usize> {
    edges.sort_unstable();
    let (mut good, mut open) = (vec![false; states], ends);
    while let Some(state) = open.pop() {
        if !std::mem::replace(&mut good[state as usize], true) {
            let first = edges.partition_point(|(to, _)| *to < state);
            let before = edges[first..].iter().take_while(|(to, _)| *to == state);
            open.extend(before.map(|(_, from)| from));
        }
    }
    good.iter().position(|g| !g)
}

/// The steps to a state.
fn way<P: Protocol>(states: &[(P, u32, usize)], mut number: usize, mistake: Option<P::Mistake>) -> Vec<String> {
    let mut out = Vec::new();
    while number > 0 {
        let (state, before, _) = states[number];
        let steps = states[before as usize].0.steps(mistake);
        let step = steps.into_iter().find(|(_, next)| *next == state);
        out.extend(step.map(|(step, _)| step.to_string()));
        number = before as usize;
    }
    out.reverse();
    out
}
