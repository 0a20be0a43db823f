// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the programs have in common: their options, the kernel's clocks, and the statement of what
//! they measured themselves.
//!
//!     NAME [--seed N] [--workers N] [--seconds N]
//!
//! Its last line of standard output is one JSON object: the statement, which tests hold against
//! what kymo recorded. Times are CLOCK_MONOTONIC in ns, as in a trace.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

pub struct Options {
    pub seed: u64,
    pub workers: usize,
    pub seconds: u64,
}

impl Options {
    /// Of the command line. Anything else in it ends the program.
    pub fn read() -> Options {
        let mut options = Options { seed: 1, workers: 2, seconds: 2 };
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let number = words.next().and_then(|text| text.parse::<u64>().ok());
            match (word.as_str(), number) {
                ("--seed", Some(n)) => options.seed = n,
                ("--workers", Some(n)) => options.workers = n as usize,
                ("--seconds", Some(n)) => options.seconds = n,
                _ => {
                    eprintln!("usage: NAME [--seed N] [--workers N] [--seconds N]");
                    std::process::exit(2);
                }
            }
        }
        options
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// A runtime of so many workers, with time and I/O.
    pub fn runtime(&self) -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(self.workers)
            .enable_all()
            .build()
            .expect("a runtime")
    }
}

/// xorshift64*: the same numbers for the same seed, everywhere.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// From least to most, both included.
    pub fn within(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is ours, and all clocks that we ask for exist.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC, the clock of a trace.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time of the calling thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of the process.
pub fn process_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Kernel thread id of the caller.
pub fn tid() -> u64 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::syscall(libc::SYS_gettid) as u64 }
}

/// Uses CPU time of this thread, so much of it, and returns something the compiler cannot leave
/// out.
pub fn burn(cpu: Duration) -> u64 {
    let end = thread_cpu_ns() + cpu.as_nanos() as u64;
    let mut sum = 0u64;
    while thread_cpu_ns() < end {
        for i in 0..1000u64 {
            sum = std::hint::black_box(sum.wrapping_mul(31).wrapping_add(i));
        }
    }
    sum
}

static STATEMENT: Mutex<BTreeMap<&'static str, Vec<u64>>> = Mutex::new(BTreeMap::new());

/// Adds a number to the statement. A name said more than once becomes a list.
pub fn say(name: &'static str, value: u64) {
    STATEMENT.lock().expect("no thread panicked").entry(name).or_default().push(value);
}

/// Prints the statement. The last thing a program does.
pub fn end() {
    let statement = STATEMENT.lock().expect("no thread panicked");
    let pairs: Vec<String> = statement
        .iter()
        .map(|(name, values)| match values.as_slice() {
            [one] => format!("\"{name}\":{one}"),
            many => format!("\"{name}\":{many:?}"),
        })
        .collect();
    println!("{{{}}}", pairs.join(","));
}
