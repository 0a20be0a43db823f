// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A process that is stopped by a signal for 700 ms, in the middle of a poll that uses 300 ms of
//! CPU time; and another poll, of 500 ms, that is the slowest the program can be blamed for. A
//! thread sees the stop as the largest gap between two looks at the clock.
use faults::{burn, end, now_ns, say, Options};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static IS_OVER: AtomicBool = AtomicBool::new(false);

fn watch_the_clock() {
    let (mut last, mut from, mut to) = (now_ns(), 0, 0);
    while !IS_OVER.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_micros(200));
        let now = now_ns();
        if now - last > to - from {
            (from, to) = (last, now);
        }
        last = now;
    }
    say("stop_from_ns", from);
    say("stop_to_ns", to);
}

/// A shell stops this process; where the environment has STOP=no, who reads the line does.
fn ask_for_a_stop() -> Option<std::process::Child> {
    if std::env::var("STOP").as_deref() == Ok("no") {
        println!("stop me");
        return None;
    }
    let pid = std::process::id();
    let script = format!("sleep 0.1; kill -STOP {pid}; sleep 0.7; kill -CONT {pid}");
    Some(std::process::Command::new("sh").args(["-c", &script]).spawn().expect("a shell"))
}

async fn interrupted() {
    burn(Duration::from_millis(300));
}

async fn slow() {
    burn(Duration::from_millis(500));
}

async fn tick() {
    loop {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn main() {
    let options = Options::read();
    let watcher = std::thread::spawn(watch_the_clock);
    options.runtime().block_on(async {
        tokio::spawn(tick());
        tokio::time::sleep(Duration::from_millis(300)).await;
        let shell = ask_for_a_stop();
        tokio::spawn(interrupted()).await.expect("the task that is interrupted");
        if let Some(mut shell) = shell {
            shell.wait().expect("the shell's end");
        }
        tokio::spawn(slow()).await.expect("the slow task");
        tokio::time::sleep(options.duration()).await;
    });
    IS_OVER.store(true, Ordering::Relaxed);
    watcher.join().expect("the thread that watches");
    end();
}
