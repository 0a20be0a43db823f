// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the services of the corpus have in common: what the seed draws (workers, load, how large
//! the fault is, which place has it), the traffic, and the harm that a program measures itself.
//!
//!     NAME [--seed N] [--seconds N] [--workers N]
//!
//! The last line of standard output is one JSON object, see `Run::end`.

pub mod cores;
mod harm;
mod slow_pipe;
mod traffic;

pub use faults::{burn, now_ns, process_cpu_ns, thread_cpu_ns, Random};
pub use harm::{has_samples, Expected, Victims};
pub use slow_pipe::slow_pipe;
pub use traffic::{plain, Job, PLACES};

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sends the same body under several names, and spawns the one that the seed has drawn:
/// `spawn(which, argument)`. `NAMES` are the names.
#[macro_export]
macro_rules! drawn {
    (async fn [$($name:ident)*]($($arg:ident)+: $type:ty) $body:block) => {
        $crate::drawn! { @ [$($name)*] ($($arg)+: $type) ($type) $body }
    };
    (@ [$($name:ident)*] $arguments:tt ($type:ty) $body:block) => {
        $(async fn $name $arguments {
            let _differs = $crate::Differs::<{ $crate::number_of(stringify!($name)) }>;
            $body
        })*

        pub const NAMES: &[&str] = &[$(stringify!($name)),*];

        #[allow(dead_code)] // a program may spawn them all the same way
        pub fn spawn(which: usize, argument: $type) -> tokio::task::JoinHandle<()> {
            let all: &[fn($type) -> tokio::task::JoinHandle<()>] =
                &[$(|argument| tokio::spawn($name(argument))),*];
            all[which % all.len()](argument)
        }
    };
}

/// What makes the copies of a body differ: the compiler would keep one of them for all, and then
/// nothing in the program says which of them runs.
pub struct Differs<const NUMBER: usize>;

impl<const NUMBER: usize> Drop for Differs<NUMBER> {
    fn drop(&mut self) {
        std::hint::black_box(NUMBER);
    }
}

pub const fn number_of(name: &str) -> usize {
    let (bytes, mut at, mut sum) = (name.as_bytes(), 0, 7usize);
    while at < bytes.len() {
        sum = sum * 31 % 1_000_003 + bytes[at] as usize;
        at += 1;
    }
    sum
}

/// A place that answers requests; the one that the seed has drawn does `body`, too.
#[macro_export]
macro_rules! places {
    (|$job:ident| $body:block) => {
        $crate::drawn! {
            async fn [checkout search render billing](mut $job: $crate::Job) {
                while $job.next().await {
                    $job.work();
                    if $job.hit $body
                    $job.reply().await;
                }
            }
        }
    };
}

pub struct Run {
    pub program: &'static str,
    pub seed: u64,
    pub workers: usize,
    pub until_ns: u64,
    /// Of `PLACES`: the place that has the fault.
    pub hit: usize,
    pub requests_per_second: u64,
    /// What an answer of that place takes without the fault.
    pub own_due_ns: AtomicU64,
    from_ns: u64,
    random: Mutex<Random>,
    harm: Mutex<harm::Accounts>,
}

impl Run {
    /// What the command line and the seed say.
    pub fn read(program: &'static str) -> Arc<Run> {
        let (mut seed, mut seconds, mut workers) = (1, 3, 0);
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let number = words.next().and_then(|text| text.parse::<u64>().ok());
            match (word.as_str(), number) {
                ("--seed", Some(n)) => seed = n,
                ("--seconds", Some(n)) => seconds = n,
                ("--workers", Some(n)) => workers = n as usize,
                _ => {
                    eprintln!("usage: {program} [--seed N] [--seconds N] [--workers N]");
                    std::process::exit(2);
                }
            }
        }
        let mut random = Random::new(seed ^ program.bytes().fold(7, |sum, b| sum * 31 + b as u64));
        random.next();
        let drawn = random.within(1, 8) as usize;
        let hit = random.within(0, PLACES as u64 - 1) as usize;
        let requests_per_second = logarithmic(&mut random, 60, 1_000);
        Arc::new(Run {
            program,
            seed,
            workers: if workers > 0 { workers } else { drawn },
            until_ns: now_ns() + seconds * 1_000_000_000,
            hit,
            requests_per_second,
            own_due_ns: AtomicU64::new(0),
            from_ns: now_ns(),
            random: Mutex::new(random),
            harm: Mutex::new(harm::Accounts::default()),
        })
    }

    pub fn within(&self, least: u64, most: u64) -> u64 {
        self.random.lock().expect("no thread panicked").within(least, most)
    }

    /// How large the fault is: each decade from least to most is as likely.
    pub fn size(&self, least: u64, most: u64) -> u64 {
        logarithmic(&mut self.random.lock().expect("no thread panicked"), least, most)
    }

    pub fn size_us(&self, least: u64, most: u64) -> Duration {
        Duration::from_micros(self.size(least, most))
    }

    pub fn is_over(&self) -> bool {
        now_ns() >= self.until_ns
    }

    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until_ns.saturating_sub(now_ns()))
    }

    pub fn runtime(&self) -> tokio::runtime::Runtime {
        self.builder().build().expect("a runtime")
    }

    /// One worker is a runtime of the thread that calls block_on() as often as not; of those that
    /// need a thread of their own for a worker it is none.
    fn has_one_thread(&self) -> bool {
        let needs_threads = ["in_place", "overload", "nested_block_on", "deadlock"];
        self.workers == 1 && self.seed % 2 == 1 && !needs_threads.contains(&self.program)
    }

    pub fn builder(&self) -> tokio::runtime::Builder {
        let mut builder = if self.has_one_thread() {
            tokio::runtime::Builder::new_current_thread()
        } else {
            tokio::runtime::Builder::new_multi_thread()
        };
        let name = ["worker", "io-pool", "app-rt", "core"][(self.seed % 4) as usize];
        builder.worker_threads(self.workers).thread_name(name).enable_all();
        builder.on_thread_stop(harm::thread_stops);
        builder
    }
}

fn logarithmic(random: &mut Random, least: u64, most: u64) -> u64 {
    let part = random.within(0, 1_000) as f64 / 1_000.0;
    (least as f64 * (most as f64 / least as f64).powf(part)) as u64
}
