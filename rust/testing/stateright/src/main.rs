//! The model of the commit and checkpoint protocol, searched by stateright: an explorer that isn't
//! ours finds as many states as ours, and each planted mistake. Its argument is how many
//! checkpoints are begun; `make model` and `make test` run it.

use std::fs;
use std::process::ExitCode;
use std::time::Instant;

use stateright::{Checker, HasDiscoveries, Model, Property};

#[path = "../../src/model/states.rs"]
mod states;

use states::{Mistake, State, Step};

const HOLDS: &str = "what must hold always holds";
const GOES_ON: &str = "who can't go on is done";
const ENDS: &str = "all can be done";
/// Checkpoints that the whole model begins, as in `make model`.
const WHOLE: u8 = 2;
/// Where `make model` has just written what our own search saw.
const OURS: &str = "docs/reliability/model.json";
const PROOF: &str = "docs/reliability/stateright.json";

struct Protocol {
    checkpoints: u8,
    mistake: Option<Mistake>,
}

/// A step with the state that it leads to.
#[derive(Debug, Clone, PartialEq)]
struct Taken(Step, State);

impl Model for Protocol {
    type State = State;
    type Action = Taken;

    fn init_states(&self) -> Vec<State> {
        vec![State::first(self.checkpoints)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Taken>) {
        let steps = state.steps(self.mistake).into_iter();
        actions.extend(steps.map(|(step, next)| Taken(step, next)));
    }

    fn next_state(&self, _: &State, action: Taken) -> Option<State> {
        Some(action.1)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(HOLDS, |_, state: &State| state.judge().is_ok()),
            Property::always(GOES_ON, |model: &Self, state: &State| {
                state.is_end() || !state.steps(model.mistake).is_empty()
            }),
            Property::sometimes(ENDS, |_, state: &State| state.is_end()),
        ]
    }
}

/// What a search of everything saw.
struct Seen {
    states: usize,
    steps: usize,
    seconds: f64,
}

/// Visits every state; an error says what doesn't hold, and the way there.
fn whole(checkpoints: u8) -> Result<Seen, String> {
    let began = Instant::now();
    let mistake = None;
    let done = Protocol { checkpoints, mistake }
        .checker()
        .threads(2)
        .spawn_bfs()
        .join();
    for property in [HOLDS, GOES_ON] {
        if let Some(path) = done.discovery(property) {
            let way: Vec<String> = path.into_actions().iter().map(|taken| taken.0.to_string()).collect();
            return Err(format!("not so: {property}\n  {}", way.join("\n  ")));
        }
    }
    if done.discovery(ENDS).is_none() {
        return Err(format!("not so: {ENDS}"));
    }
    Ok(Seen {
        states: done.unique_state_count(),
        // It counts the first state as generated too.
        steps: done.state_count() - 1,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Steps to what a mistake breaks.
fn found(checkpoints: u8, mistake: Mistake) -> Result<usize, String> {
    let model = Protocol {
        checkpoints,
        mistake: Some(mistake),
    };
    let done = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    let path = done.discovery(HOLDS).or_else(|| done.discovery(GOES_ON));
    path.map(|path| path.into_actions().len())
        .ok_or_else(|| format!("planted {mistake:?}: nothing found"))
}

/// The number behind a name in the file that our own search wrote.
fn figure(text: &str, name: &str) -> Option<usize> {
    let (_, after) = text.split_once(&format!("\"{name}\":"))?;
    let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn run(checkpoints: u8) -> Result<(), String> {
    let seen = whole(checkpoints)?;
    println!("{} states, {} steps in {:.0} s", seen.states, seen.steps, seen.seconds);
    let mut lines = vec![
        format!("    \"seconds\": {:.0}", seen.seconds),
        format!("    \"states\": {}", seen.states),
        format!("    \"steps between them\": {}", seen.steps),
    ];
    for mistake in Mistake::ALL {
        let steps = found(checkpoints, mistake)?;
        println!("planted {mistake:?}: found after {steps} steps");
        lines.push(format!("    \"steps of a way to what {mistake:?} breaks\": {steps}"));
    }
    if checkpoints == WHOLE {
        let ours = fs::read_to_string(OURS).map_err(|e| format!("{OURS}: {e}; run it by `make model`"))?;
        for (name, theirs) in [("states", seen.states), ("steps between them", seen.steps)] {
            if figure(&ours, name) != Some(theirs) {
                return Err(format!("{name}: {theirs}, {OURS} has another number"));
            }
        }
        let claim = "stateright, an independent model checker, explores the same model: it visits as many states and steps as our own search with the same verdicts, finds no deadlock, and finds every planted mistake.";
        let page = format!(
            "{{\n  \"claims\": [\n    {:?}\n  ],\n  \"figures\": {{\n{}\n  }},\n  \"how\": \"make model\",\n  \"title\": \"The same model by stateright\"\n}}\n",
            claim,
            lines.join(",\n")
        );
        fs::write(PROOF, page).map_err(|e| format!("{PROOF}: {e}"))?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let checkpoints = match std::env::args().nth(1).map(|argument| argument.parse()) {
        None => WHOLE,
        Some(Ok(argument)) => argument,
        Some(Err(_)) => {
            eprintln!("say how many checkpoints are begun");
            return ExitCode::FAILURE;
        }
    };
    match run(checkpoints) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
