// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The harm that a program measures itself, and what must follow from it.

use crate::{now_ns, process_cpu_ns, Run};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// A wait up to Tokio's timer tick harms nobody who could tell it from the tick.
const SLACK_NS: u64 = 1_000_000;
/// Above both, the fault must be named first.
const SHARE_PPM_MIN: u64 = 100_000;
const WORST_NS_MIN: u64 = 5_000_000;
/// One or two late waits are a cause only where people see them (constants.def, CRITICAL_NS).
const LATE_MIN: u64 = 3;
const SEEN_NS: u64 = 50_000_000;
/// Below one of them, nothing above "info" may be said.
const SHARE_PPM_NONE: u64 = 10_000;
const WORST_NS_NONE: u64 = 2_000_000;
/// What grows without end: above the first it must be named, below the second it may not.
const GROWTH_MIN: u64 = 200;
const GROWTH_NONE: u64 = 20;
/// What waits for ever, as long as it was seen to wait.
const STUCK_NS_MIN: u64 = 500_000_000;
const STUCK_NS_NONE: u64 = 20_000_000;
/// kymo reads accept queues every 50 ms: of waits that fill ten readings it must have seen some.
const QUEUED_NS_MIN: u64 = 500_000_000;
/// What uses a CPU for nothing, in ppm of one CPU.
const BURDEN_PPM_MIN: u64 = 200_000;
const BURDEN_PPM_NONE: u64 = 10_000;

#[derive(Clone, Copy, PartialEq)]
pub enum Victims {
    /// Requests of the place that has the fault, and what the program says of itself.
    Own,
    /// The same, where they wait in an accept queue.
    Queued,
    /// Requests of the other places, and the heartbeat.
    Others,
    /// Both: the fault makes polls long, its own and what stands behind them.
    All,
    /// Those of `Own` that wait for what never comes.
    Stuck,
    /// The fault is what has grown.
    Growth,
    /// The fault is CPU time used for nothing.
    Burden,
    /// There is no fault.
    None,
}

#[derive(Default)]
struct Account {
    waits: u64,
    late: u64,
    total_ns: u64,
    excess_ns: u64,
    worst_ns: u64,
}

#[derive(Default)]
pub struct Accounts {
    own: Account,
    others: Account,
    grown: u64,
    burden_ns: u64,
}

/// What kymo should say when the harm is large enough.
pub struct Expected {
    /// Ids of findings; one of them must be first.
    pub findings: &'static [&'static str],
    /// Functions, threads or resources; the culprit must contain one of them. None: any.
    pub culprit: Vec<String>,
    pub victims: Victims,
}

impl Account {
    fn add(&mut self, wait_ns: u64, due_ns: u64) {
        let excess_ns = wait_ns.saturating_sub(due_ns + SLACK_NS);
        self.waits += 1;
        self.late += u64::from(excess_ns > 0);
        self.total_ns += wait_ns.saturating_sub(due_ns);
        self.excess_ns += excess_ns;
        self.worst_ns = self.worst_ns.max(wait_ns.saturating_sub(due_ns));
    }

    fn with(&self, other: &Account) -> Account {
        Account {
            waits: self.waits + other.waits,
            late: self.late + other.late,
            total_ns: self.total_ns + other.total_ns,
            excess_ns: self.excess_ns + other.excess_ns,
            worst_ns: self.worst_ns.max(other.worst_ns),
        }
    }

    fn share_ppm(&self) -> u64 {
        (self.excess_ns as u128 * 1_000_000 / self.total_ns.max(1) as u128) as u64
    }

    fn verdict(&self) -> &'static str {
        if self.worst_ns < WORST_NS_NONE || self.share_ppm() < SHARE_PPM_NONE {
            "healthy"
        } else if self.worst_ns >= WORST_NS_MIN
            && self.share_ppm() >= SHARE_PPM_MIN
            && (self.late >= LATE_MIN || self.worst_ns >= SEEN_NS)
        {
            "fault"
        } else {
            "either"
        }
    }

    fn json(&self) -> String {
        format!(
            "{{\"waits\":{},\"late\":{},\"total_ns\":{},\"excess_ns\":{},\
             \"share_ppm\":{},\"worst_ns\":{}}}",
            self.waits,
            self.late,
            self.total_ns,
            self.excess_ns,
            self.share_ppm(),
            self.worst_ns
        )
    }
}

fn between(value: u64, none: u64, least: u64) -> &'static str {
    match value {
        v if v >= least => "fault",
        v if v < none => "healthy",
        _ => "either",
    }
}

/// Of threads that have ended.
static RUN_DELAY_NS: AtomicU64 = AtomicU64::new(0);

fn run_delay_of(thread: &Path) -> u64 {
    let line = std::fs::read_to_string(thread.join("schedstat")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The runtime calls it on each of its threads, before it ends.
pub fn thread_stops() {
    RUN_DELAY_NS.fetch_add(run_delay_of(Path::new("/proc/thread-self")), Ordering::Relaxed);
}

/// What the kernel made this process's threads wait for a CPU.
fn run_delay_ns() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks.map(|task| run_delay_of(&task.path())).sum::<u64>() + RUN_DELAY_NS.load(Ordering::Relaxed)
}

fn list<T: AsRef<str>>(words: &[T]) -> String {
    let quoted: Vec<_> = words.iter().map(|word| format!("\"{}\"", word.as_ref())).collect();
    format!("[{}]", quoted.join(","))
}

/// A profile of 99 samples a second has enough of them in so much CPU time to say whose it was. A
/// cause that samples alone tell from another is due only then.
pub fn has_samples(cpu_ns: u64) -> bool {
    cpu_ns >= 300_000_000
}

impl Run {
    /// Somebody waited so long for what was due after `due_ns`.
    pub fn waited(&self, victims: Victims, wait_ns: u64, due_ns: u64) {
        let mut harm = self.harm.lock().expect("no thread panicked");
        match victims {
            Victims::Own | Victims::Queued | Victims::Stuck => harm.own.add(wait_ns, due_ns),
            _ => harm.others.add(wait_ns, due_ns),
        }
    }

    /// So many more, or less, of what grows.
    pub fn grew(&self, count: i64) {
        let mut harm = self.harm.lock().expect("no thread panicked");
        harm.grown = harm.grown.saturating_add_signed(count);
    }

    /// CPU time used for nothing.
    pub fn wasted(&self, cpu_ns: u64) {
        self.harm.lock().expect("no thread panicked").burden_ns += cpu_ns;
    }

    /// Prints what was drawn, what was measured and what must follow. The last thing a program
    /// does.
    pub fn end(&self, size: u64, expected: Expected) {
        let harm = self.harm.lock().expect("no thread panicked");
        let wall_ns = now_ns() - self.from_ns;
        let burden_ppm = harm.burden_ns * 1_000_000 / wall_ns;
        let verdict = match expected.victims {
            Victims::Queued if harm.own.excess_ns < QUEUED_NS_MIN => "either",
            Victims::Own | Victims::Queued => harm.own.verdict(),
            Victims::Others => harm.others.verdict(),
            Victims::All => harm.own.with(&harm.others).verdict(),
            // What it waits for has others waiting, too.
            Victims::Stuck => match between(harm.own.worst_ns, STUCK_NS_NONE, STUCK_NS_MIN) {
                "healthy" if harm.others.verdict() != "healthy" => "either",
                verdict => verdict,
            },
            Victims::Growth => between(harm.grown, GROWTH_NONE, GROWTH_MIN),
            Victims::Burden => between(burden_ppm, BURDEN_PPM_NONE, BURDEN_PPM_MIN),
            Victims::None => "healthy",
        };
        println!(
            "{{\"fault\":\"{}\",\"seed\":{},\"workers\":{},\"size\":{size},\"rate\":{},\
             \"verdict\":\"{verdict}\",\"findings\":{},\"culprit\":{},\"own\":{},\"others\":{},\
             \"grown\":{},\"burden_ppm\":{burden_ppm},\"wall_ns\":{wall_ns},\"cpu_ns\":{},\
             \"run_delay_ns\":{}}}",
            self.program,
            self.seed,
            self.workers,
            self.requests_per_second,
            list(expected.findings),
            list(&expected.culprit),
            harm.own.json(),
            harm.others.json(),
            harm.grown,
            process_cpu_ns(),
            run_delay_ns(),
        );
    }
}
