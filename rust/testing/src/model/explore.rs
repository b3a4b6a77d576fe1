//! Breadth-first search over all states, so that what it finds is shortest, and back from the ends,
//! so that a state from which nobody can come to one is found too. `rust/testing/stateright` counts
//! the same states by another program.

use std::collections::HashMap;

use super::states::{Mistake, State};

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
    let first = State::first(checkpoints);
    let mut numbers = HashMap::from([(first, 0_u32)]);
    // Each state, the one it was found from, and how far from the first.
    let mut found = vec![(first, 0_u32, 0_usize)];
    let mut edges = Vec::new();
    let mut out = Explored {
        states: 0,
        steps: 0,
        depth: 0,
        ends: 0,
        violation: None,
    };
    let (mut at, mut ends) = (0, Vec::new());
    while let Some((state, _, depth)) = found.get(at).copied() {
        out.depth = depth;
        if let Err(what) = state.judge() {
            out.violation = Some((what, way(&found, at, mistake)));
            break;
        }
        if state.is_end() {
            ends.push(at as u32);
        }
        for (_, next) in state.steps(mistake) {
            let number = *numbers.entry(next).or_insert_with(|| {
                found.push((next, at as u32, depth + 1));
                found.len() as u32 - 1
            });
            edges.push((number, at as u32));
        }
        at += 1;
    }
    (out.states, out.steps, out.ends) = (found.len(), edges.len(), ends.len());
    if out.violation.is_none()
        && let Some(stuck) = without_end(found.len(), edges, ends)
    {
        let what = "nobody can come to an end from here".to_owned();
        out.violation = Some((what, way(&found, stuck, mistake)));
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
fn way(found: &[(State, u32, usize)], mut at: usize, mistake: Option<Mistake>) -> Vec<String> {
    let mut out = Vec::new();
    while at > 0 {
        let (state, before, _) = found[at];
        let steps = found[before as usize].0.steps(mistake);
        let step = steps.into_iter().find(|(_, next)| *next == state);
        out.extend(step.map(|(step, _)| step.to_string()));
        at = before as usize;
    }
    out.reverse();
    out
}
