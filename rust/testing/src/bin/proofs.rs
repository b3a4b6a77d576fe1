//! `make sim`: many seeded schedules of one table on every core, and the planted bugs; one schedule
//! again, step by step, with `--seed`. `make sim-tables`: the same for two tables of a catalog.
//! `make model`: every state of the protocol in the small. All write down what they counted.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use deltaplane_testing::{
    Bug, Cast, GroupBug, GroupMistake, Mistake, Outcome, Report, explore, explore_tables, run, run_tables,
};
use serde_json::{Value, json};

/// Schedules unless another number is asked for.
const SCHEDULES: u64 = 100_000;
/// Schedules within which a planted bug has to be found.
const PATIENCE: u64 = 5_000;
/// Checkpoints that the whole model begins.
const CHECKPOINTS: u8 = 2;

/// Runs the schedule of a seed, with or without its trace.
type Run = Box<dyn Fn(u64, bool) -> Outcome + Sync>;

/// A simulation, and the bugs that it has to find.
struct Simulation {
    run: Run,
    bugs: Vec<(String, Run)>,
    /// The `make` target.
    command: &'static str,
    /// The report's file.
    file: &'static str,
    title: &'static str,
    claims: &'static [&'static str],
}

impl Simulation {
    fn of_one_table() -> Self {
        let planted = |bug: Bug| -> (String, Run) {
            (
                format!("{bug:?}"),
                Box::new(move |seed, traced| run(seed, Some(bug), traced)),
            )
        };
        Simulation {
            run: Box::new(|seed, traced| run(seed, None, traced)),
            bugs: Bug::ALL.into_iter().map(planted).collect(),
            command: "sim",
            file: "simulation",
            title: "Deterministic simulation",
            claims: &[
                "Three writers, readers, checkpointers and cleaners run the product's own code over a simulated store that loses, doubles and delays writes, leaves their outcome open, fails reads and lists page by page, while actors crash between any two calls and days pass.",
                "After every step: versions are contiguous and never change; no acknowledged commit is lost; none that was reported as failed is visible, unless the store's failure was reported, which leaves it open; the history is serial; an application's version is done once; a checkpoint is what the replay of all commits is; the hint follows its checkpoint; every version within its retention can be rebuilt; readers see whole versions, the newest one at least.",
                "In two of five schedules a catalog decides the commits, whose calls are lost, doubled, delayed and left open too: each version is ratified once, after its predecessor and with its content, published in order by anybody, and checkpointed only then.",
                "Every schedule is reproducible from its seed, step by step.",
                "Transactions may pause for days while the log is cleaned up. Assumption: no single request takes longer than the log's retention.",
            ],
        }
    }

    fn of_two_tables() -> Self {
        let planted = |bug: GroupBug| -> (String, Run) {
            (
                format!("{bug:?}"),
                Box::new(move |seed, traced| run_tables(seed, Some(bug), traced)),
            )
        };
        Simulation {
            run: Box::new(|seed, traced| run_tables(seed, None, traced)),
            bugs: GroupBug::ALL.into_iter().map(planted).collect(),
            command: "sim-tables",
            file: "simulation_tables",
            title: "Deterministic simulation of transactions over two tables",
            claims: &[
                "Three writers run the product's own transactions over two tables of one catalog, and commits to one of them; two readers load both tables at one instant; a publisher publishes late. Calls to the store and the catalog are lost, doubled, delayed and left open, actors crash between any two calls, the catalog's server crashes with a part of its requests done, and clocks differ by up to a day.",
                "After every step: a transaction is in all of its tables or in none, and once, ratified at one instant; a version is ratified once, after its predecessor, later than it, and its content is there; what a serializable transaction read is the same at its commit, also in a table that it only reads; the file of a published version is what was ratified, and versions are published in order; the catalog knows none to be published that isn't.",
                "What was acknowledged is in the tables at the acknowledged versions, and what was reported as failed isn't and never will be. Readers see, of each transaction, all or nothing, and at least what was ratified when they asked.",
                "At the end both tables are read and published by a fresh process, and fsck finds exactly those staged commits that nothing needs. Where nothing failed, no transaction that lost has left one behind.",
                "Every schedule is reproducible from its seed, step by step.",
            ],
        }
    }
}

struct Arguments {
    schedules: u64,
    first: u64,
    seed: Option<u64>,
    threads: usize,
    bug: Option<String>,
    /// Seconds after which no other schedule begins.
    seconds: u64,
}

fn main() -> ExitCode {
    let mut arguments_left = std::env::args().skip(1);
    let done = match arguments_left.next().as_deref() {
        Some("sim") => simulate(&Simulation::of_one_table(), arguments_left),
        Some("sim-tables") => simulate(&Simulation::of_two_tables(), arguments_left),
        Some("model") => model().and_then(|good| Ok(tables()? && good)),
        _ => Err("say sim, sim-tables or model".to_owned()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut arguments_left: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut out = Arguments {
        schedules: SCHEDULES,
        first: 0,
        seed: None,
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        bug: None,
        seconds: u64::MAX,
    };
    while let Some(name) = arguments_left.next() {
        let value = arguments_left.next().ok_or_else(|| format!("{name} needs a value"))?;
        let number = || value.parse::<u64>().map_err(|e| format!("{name} {value}: {e}"));
        match name.as_str() {
            "--schedules" => out.schedules = number()?,
            "--first" => out.first = number()?,
            "--seed" => out.seed = Some(number()?),
            "--threads" => out.threads = number()? as usize,
            "--seconds" => out.seconds = number()?,
            "--bug" => out.bug = Some(value),
            other => return Err(format!("unknown option {other}")),
        }
    }
    Ok(out)
}

/// Runs one schedule and shows its steps.
fn replay(seed: u64, run: &Run) -> bool {
    let outcome = run(seed, true);
    for line in &outcome.trace {
        println!("{line}");
    }
    let wrong = outcome.violation.as_deref();
    println!("seed {seed}: {}", wrong.unwrap_or("nothing is wrong"));
    wrong.is_none()
}

#[derive(Default)]
struct Sum {
    schedules: u64,
    steps: u64,
    commits: u64,
    events: BTreeMap<&'static str, u64>,
    wrong: Vec<Outcome>,
}

impl Sum {
    fn add(&mut self, outcome: Outcome) {
        self.schedules += 1;
        self.steps += outcome.steps;
        self.commits += outcome.commits;
        for (name, n) in &outcome.events {
            *self.events.entry(name).or_default() += n;
        }
        if outcome.violation.is_some() {
            self.wrong.push(outcome);
        }
    }
}

fn simulate(simulation: &Simulation, arguments_left: impl Iterator<Item = String>) -> Result<bool, String> {
    let arguments = arguments(arguments_left)?;
    let run = match &arguments.bug {
        None => &simulation.run,
        Some(name) => {
            let known = simulation.bugs.iter().find(|(bug, _)| bug == name);
            known.map(|(_, run)| run).ok_or(format!("no bug is called {name}"))?
        }
    };
    match arguments.seed {
        Some(seed) => Ok(replay(seed, run)),
        None => explore_seeds(simulation, run, &arguments),
    }
}

fn explore_seeds(simulation: &Simulation, run: &Run, arguments: &Arguments) -> Result<bool, String> {
    let began = Instant::now();
    let (next, sum) = (AtomicU64::new(0), Mutex::new(Sum::default()));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads {
            scope.spawn(|| {
                loop {
                    let k = next.fetch_add(1, Ordering::Relaxed);
                    if k >= arguments.schedules || began.elapsed().as_secs() >= arguments.seconds {
                        break;
                    }
                    let outcome = run(arguments.first + k, false);
                    sum.lock().unwrap_or_else(|e| e.into_inner()).add(outcome);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap_or_else(|e| e.into_inner());
    let seconds = began.elapsed().as_secs_f64();
    let rate = (sum.schedules as f64 / seconds).round();
    println!("{} schedules in {seconds:.0} s, {rate} a second", sum.schedules);
    println!("{} steps, {} commits, {:?}", sum.steps, sum.commits, sum.events);
    for o in sum.wrong.iter().take(10) {
        println!("seed {}: {}", o.seed, o.violation.as_deref().unwrap_or_default());
        println!(
            "  its steps: make {} SIM_ARGS=\"--seed {}\"",
            simulation.command, o.seed
        );
    }
    println!("{} violations", sum.wrong.len());
    if arguments.bug.is_some() {
        return Ok(sum.wrong.is_empty());
    }
    let planted = find_planted(simulation);
    let all_found = planted.iter().all(|(_, seed)| seed.is_some());
    if sum.schedules >= 1000 {
        let report = simulation_report(simulation, arguments, &sum, seconds, rate, &planted);
        report.write(simulation.file).map_err(|e| e.to_string())?;
    }
    Ok(sum.wrong.is_empty() && all_found)
}

/// How many schedules each planted bug took to be found.
fn find_planted(simulation: &Simulation) -> Vec<(&str, Option<u64>)> {
    let find = |(bug, run): &(String, Run)| {
        let first_seed = (0..PATIENCE).find(|seed| run(*seed, false).violation.is_some());
        let first_seed = first_seed.map(|seed| seed + 1);
        println!("planted {bug}: found after {first_seed:?} schedules");
        first_seed
    };
    simulation.bugs.iter().map(|bug| (bug.0.as_str(), find(bug))).collect()
}

fn simulation_report(
    simulation: &Simulation,
    arguments: &Arguments,
    sum: &Sum,
    seconds: f64,
    rate: f64,
    planted: &[(&str, Option<u64>)],
) -> Report {
    let number = |n: u64| Value::from(n);
    let mut figures = vec![
        ("schedules".to_owned(), number(sum.schedules)),
        ("first seed".to_owned(), number(arguments.first)),
        ("seconds".to_owned(), json!(seconds.round())),
        ("schedules a second".to_owned(), json!(rate)),
        ("threads".to_owned(), number(arguments.threads as u64)),
        (
            "calls of the store, each a choice of the scheduler".to_owned(),
            number(sum.steps),
        ),
        ("commits".to_owned(), number(sum.commits)),
        ("violations".to_owned(), number(sum.wrong.len() as u64)),
    ];
    figures.extend(sum.events.iter().map(|(name, n)| ((*name).to_owned(), number(*n))));
    for (bug, seed) in planted {
        let name = format!("schedules until the planted bug {bug} was found");
        figures.push((name, seed.map_or(Value::Null, number)));
    }
    Report {
        title: simulation.title,
        claims: simulation.claims.iter().map(|claim| (*claim).to_owned()).collect(),
        figures,
        how: match sum.schedules {
            SCHEDULES => format!("make {}", simulation.command),
            n => format!("make {} SIM_ARGS=\"--schedules {n}\"", simulation.command),
        },
    }
}

fn model() -> Result<bool, String> {
    let began = Instant::now();
    let whole = explore(CHECKPOINTS, None);
    let seconds = began.elapsed().as_secs_f64();
    println!(
        "{} states, {} steps, depth {}, {} ends in {seconds:.0} s",
        whole.states, whole.steps, whole.depth, whole.ends
    );
    let mut good = whole.violation.is_none();
    if let Some((what, way)) = &whole.violation {
        println!("{what}\n  {}", way.join("\n  "));
    }
    let mut figures = vec![
        ("states".to_owned(), json!(whole.states)),
        ("steps between them".to_owned(), json!(whole.steps)),
        ("depth".to_owned(), json!(whole.depth)),
        ("states in which all is done".to_owned(), json!(whole.ends)),
        ("seconds".to_owned(), json!(seconds.round())),
        ("violations".to_owned(), json!(usize::from(!good))),
    ];
    for mistake in Mistake::ALL {
        let violation = explore(CHECKPOINTS, Some(mistake)).violation;
        good &= violation.is_some();
        let steps = violation.as_ref().map(|(_, way)| way.len());
        println!("planted {mistake:?}: {violation:?}");
        figures.push((
            format!("steps of the shortest way to what {mistake:?} breaks"),
            json!(steps),
        ));
    }
    let claims = [
        "Every state that three writers (two that read and replace all rows, one that appends blindly), a checkpointer and a cleaner can reach was visited, with puts that are lost, late, doubled or of unknown outcome, and with a crash of any actor at any step.",
        "In each state: versions are contiguous and none is written twice; a commit that was reported as successful is at its reported version, once; a commit that was reported as failed isn't in the log; a writer that read all rows has read every version before its own; each checkpoint holds its version's state; the hint names an existing checkpoint; the newest version can be rebuilt; and every actor can finish.",
        "Assumption: log cleanup removes no file that a running transaction or request started from (the log's retention). Without this assumption the search finds a version that is written twice.",
    ];
    let report = Report {
        title: "Model of the commit and checkpoint protocol",
        claims: claims.map(str::to_owned).into(),
        figures,
        how: "make model".to_owned(),
    };
    report.write("model").map_err(|e| e.to_string())?;
    Ok(good)
}

fn tables() -> Result<bool, String> {
    let began = Instant::now();
    let (mut states, mut steps, mut ends, mut depth) = (0, 0, 0, 0);
    let mut good = true;
    for cast in Cast::ALL {
        let all = explore_tables(cast, None);
        println!(
            "{cast:?}: {} states, {} steps, depth {}",
            all.states, all.steps, all.depth
        );
        if let Some((what, way)) = &all.violation {
            println!("{what}\n  {}", way.join("\n  "));
            good = false;
        }
        (states, steps, ends) = (states + all.states, steps + all.steps, ends + all.ends);
        depth = depth.max(all.depth);
    }
    let mut figures = vec![
        ("states".to_owned(), json!(states)),
        ("steps between them".to_owned(), json!(steps)),
        ("depth".to_owned(), json!(depth)),
        ("states in which all is done".to_owned(), json!(ends)),
        ("seconds".to_owned(), json!(began.elapsed().as_secs_f64().round())),
        ("violations".to_owned(), json!(usize::from(!good))),
    ];
    for mistake in GroupMistake::ALL {
        let ways = Cast::ALL.map(|cast| explore_tables(cast, Some(mistake)).violation);
        let shortest = ways.iter().flatten().map(|(_, way)| way.len()).min();
        good &= shortest.is_some();
        println!("planted {mistake:?}: {shortest:?} steps");
        figures.push((
            format!("steps of the shortest way to what {mistake:?} breaks"),
            json!(shortest),
        ));
    }
    let claims = [
        "Every state that three writers over two tables of one catalog can reach was visited, twice: one transaction that reads and replaces both tables, one that adds to the first and reads the second, one that adds to both; and two that each read the table that the other one writes, beside one that adds to both. Requests to the catalog are lost, late, repeated or of unknown outcome; a publisher works beside; each actor may crash at any step.",
        "In each state: a transaction is in all of its tables or in none, and once; one that was reported as committed is there, one that was reported as failed isn't and never will be; rows that a transaction read are the same in the version that it is committed on, also in tables that it only reads; the tables that it loaded are of one instant; staged commits and data files of ratified versions are there; and every actor can finish.",
    ];
    let report = Report {
        title: "Model of transactions over several tables",
        claims: claims.map(str::to_owned).into(),
        figures,
        how: "make model".to_owned(),
    };
    report.write("tables").map_err(|e| e.to_string())?;
    Ok(good)
}
