// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that belongs to no runtime wakes tasks of three runtimes in turn, each with one worker
//! that is parked by then: in a driver of its own, or, without I/O, on its condition variable.
use faults::{end, say, Options};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;

const ROUNDS: u64 = 60;
const PACE: Duration = Duration::from_millis(2);

/// As large as it says, so that no two have the same code, which a linker would make one.
async fn listen<const BYTES: usize>(word: Arc<Notify>) {
    let kept = std::hint::black_box([1u8; BYTES]);
    // On a busy machine two wakes may come before it is polled, and count as one.
    loop {
        word.notified().await;
        std::hint::black_box(&kept);
    }
}

fn runtime(has_io: bool) -> Runtime {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(1);
    if has_io {
        builder.enable_io();
    }
    builder.build().expect("a runtime")
}

/// Of the only worker: it says so itself.
async fn tid() -> u64 {
    // SAFETY: it has no arguments.
    u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).expect("a thread id")
}

fn main() {
    Options::read();
    let runtimes = [runtime(false), runtime(true), runtime(true)];
    let words: [Arc<Notify>; 3] = Default::default();
    for one in &runtimes {
        say("tids", one.block_on(one.spawn(tid())).expect("a task"));
    }
    let tasks = [
        runtimes[0].spawn(listen::<24>(words[0].clone())),
        runtimes[1].spawn(listen::<48>(words[1].clone())),
        runtimes[2].spawn(listen::<72>(words[2].clone())),
    ];
    std::thread::spawn(move || {
        // SAFETY: it has no arguments.
        say("waker", u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).expect("an id"));
        for _ in 0..ROUNDS {
            for word in &words {
                std::thread::sleep(PACE);
                word.notify_one();
            }
        }
    })
    .join()
    .expect("the thread");
    for (one, task) in runtimes.iter().zip(tasks) {
        task.abort();
        one.block_on(task).expect_err("aborted");
    }
    say("rounds", ROUNDS);
    end();
}
