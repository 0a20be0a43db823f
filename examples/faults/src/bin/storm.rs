// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Takes every CPU with polls that end at once: a million events a second. Half-way it lowers its
//! limit of descriptors.
use faults::{end, now_ns, process_cpu_ns, say, Options};

async fn yields(until_ns: u64) -> u64 {
    let mut polls = 0;
    while now_ns() < until_ns {
        polls += 1;
        tokio::task::yield_now().await;
    }
    polls
}

/// The soft limit of descriptors becomes this one.
fn limit_descriptors(count: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = count;
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
    }
}

/// Resident bytes of the program's own: without the file, in a folder `rings`, that kymo shares
/// with it.
fn own_resident_bytes() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("/proc");
    let (mut kib, mut is_ours) = (0, true);
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        match (words.next(), words.next()) {
            (Some("Rss:"), Some(number)) if is_ours => kib += number.parse().unwrap_or(0),
            (Some(name), _) if !name.ends_with(':') => is_ours = !line.contains("/rings/"),
            _ => {}
        }
    }
    kib * 1024
}

fn main() {
    let options = Options::read();
    let from_ns = now_ns();
    let until_ns = from_ns + options.duration().as_nanos() as u64;
    let mut polls = 0;
    options.runtime().block_on(async {
        let tasks: Vec<_> = (0..8).map(|_| tokio::spawn(yields(until_ns))).collect();
        tokio::time::sleep(options.duration() / 2).await;
        limit_descriptors(500);
        for task in tasks {
            polls += task.await.expect("a task");
        }
    });
    say("polls", polls);
    say("resident_bytes", own_resident_bytes());
    say("fd_limit", 500);
    say("wall_ns", now_ns() - from_ns);
    say("cpu_ns", process_cpu_ns());
    end();
}
