// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place empties a long queue by try_recv(), which takes none of Tokio's budget, and does next to
//! nothing with each item: no await ends the poll.
use corpus::{has_samples, now_ns, thread_cpu_ns, Expected, Run, Victims};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::mpsc::{unbounded_channel, UnboundedReceiver, UnboundedSender};

static QUEUE: OnceLock<Mutex<UnboundedReceiver<u64>>> = OnceLock::new();
/// The queue is long, and no request has emptied it.
static IS_FULL: AtomicBool = AtomicBool::new(false);
static USED_NS: AtomicU64 = AtomicU64::new(0);

fn digest() -> u64 {
    let mut queue = QUEUE.get().expect("made").lock().expect("no thread panicked");
    let mut sum = 0u64;
    while let Ok(item) = queue.try_recv() {
        sum = sum.wrapping_add(item);
    }
    sum
}

/// Fills it again and again, in a fifth of the time at most.
fn fill(run: &Run, sender: &UnboundedSender<u64>, count: u64) {
    while !run.is_over() {
        let from_ns = now_ns();
        for item in 0..count {
            let _ = sender.send(item);
        }
        let pause = Duration::from_nanos(4 * (now_ns() - from_ns));
        IS_FULL.store(true, Ordering::Release);
        std::thread::sleep(pause.min(run.left()));
        while IS_FULL.load(Ordering::Acquire) && !run.is_over() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

corpus::places!(|job| {
    if IS_FULL.swap(false, Ordering::AcqRel) {
        let from_ns = thread_cpu_ns();
        std::hint::black_box(digest());
        USED_NS.fetch_add(thread_cpu_ns() - from_ns, Ordering::Relaxed);
    }
});

fn main() {
    let run = Run::read("ready_loop");
    let count = run.size(10_000, 1_000_000);
    let (sender, queue) = unbounded_channel();
    QUEUE.get_or_init(|| Mutex::new(queue));
    let filler = run.clone();
    let thread = std::thread::spawn(move || fill(&filler, &sender, count));
    run.serve(spawn);
    let _ = thread.join();
    let culprit = vec![NAMES[run.hit].into(), "digest".into()];
    let findings: &[&str] = if has_samples(USED_NS.load(Ordering::Relaxed)) {
        &["coop_budget_bypassed"]
    } else {
        &["coop_budget_bypassed", "cpu_heavy_poll"]
    };
    run.end(count, Expected { findings, culprit, victims: Victims::All });
}
