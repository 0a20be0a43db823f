// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tasks of five kinds, counted as tokio-metrics does, and what Tokio counts of their runtime:
//! `measured WORKERS`, 0 for a current-thread runtime. Exits with two tasks alive.
use std::time::Duration;
use tokio::net::UdpSocket;
use witness::measured::{measured, Counts};
use witness::{multi_thread, self_wake};

static YIELDS: Counts = new();
static SELF_WAKES: Counts = new();
static SLEEPS: Counts = new();
static PINGS: Counts = new();
static ABORTED: Counts = new();
static WAITS: Counts = new();

const fn new() -> Counts {
    use std::sync::atomic::AtomicU64;
    Counts {
        instrumented: AtomicU64::new(0),
        dropped: AtomicU64::new(0),
        first_polls: AtomicU64::new(0),
        polls: AtomicU64::new(0),
        idled: AtomicU64::new(0),
        scheduled: AtomicU64::new(0),
    }
}

async fn yields(times: u64) {
    for _ in 0..times {
        tokio::task::yield_now().await
    }
}

async fn sleeps(times: u64) {
    for _ in 0..times {
        tokio::time::sleep(Duration::from_millis(2)).await
    }
}

/// Each in turn; the first one begins.
async fn pings(own: UdpSocket, is_first: bool, times: u64) {
    let mut byte = [1u8];
    for _ in 0..times {
        if is_first {
            own.send(&byte).await.unwrap();
        }
        own.recv(&mut byte).await.unwrap();
        if !is_first {
            own.send(&byte).await.unwrap();
        }
    }
}

async fn is_aborted() {
    std::future::pending().await
}

async fn waits() {
    std::future::pending().await
}

async fn work() {
    let one = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    one.connect(other.local_addr().unwrap()).await.unwrap();
    other.connect(one.local_addr().unwrap()).await.unwrap();
    let mut tasks = Vec::new();
    for _ in 0..8 {
        tasks.push(tokio::spawn(measured(&YIELDS, yields(50))));
    }
    for _ in 0..4 {
        tasks.push(tokio::spawn(measured(&SELF_WAKES, self_wake(30))));
    }
    for _ in 0..2 {
        tasks.push(tokio::spawn(measured(&SLEEPS, sleeps(5))));
        tokio::spawn(measured(&WAITS, waits()));
    }
    tasks.push(tokio::spawn(measured(&PINGS, pings(one, true, 20))));
    tasks.push(tokio::spawn(measured(&PINGS, pings(other, false, 20))));
    let aborted: Vec<_> = (0..3).map(|_| tokio::spawn(measured(&ABORTED, is_aborted()))).collect();
    for task in tasks {
        task.await.unwrap()
    }
    for task in &aborted {
        task.abort()
    }
    for task in aborted {
        assert!(task.await.unwrap_err().is_cancelled())
    }
}

/// The counters behind the RuntimeMetrics of the crate tokio-metrics, by its names.
#[cfg(tokio_unstable)]
fn runtime_metrics(metrics: &tokio::runtime::RuntimeMetrics) -> Vec<(&'static str, u64)> {
    let workers = metrics.num_workers();
    let sum = |of: &dyn Fn(usize) -> u64| (0..workers).map(of).sum();
    vec![
        ("workers_count", workers as u64),
        ("live_tasks_count", metrics.num_alive_tasks() as u64),
        ("total_park_count", sum(&|i| metrics.worker_park_count(i))),
        ("total_noop_count", sum(&|i| metrics.worker_noop_count(i))),
        ("total_polls_count", sum(&|i| metrics.worker_poll_count(i))),
        ("max_polls_count", (0..workers).map(|i| metrics.worker_poll_count(i)).max().unwrap_or(0)),
        ("total_steal_count", sum(&|i| metrics.worker_steal_count(i))),
        ("total_overflow_count", sum(&|i| metrics.worker_overflow_count(i))),
        ("num_remote_schedules", metrics.remote_schedule_count()),
        ("total_local_schedule_count", sum(&|i| metrics.worker_local_schedule_count(i))),
        ("io_driver_ready_count", metrics.io_driver_ready_count()),
    ]
}

#[cfg(not(tokio_unstable))]
fn runtime_metrics(_: &tokio::runtime::RuntimeMetrics) -> Vec<(&'static str, u64)> {
    Vec::new()
}

fn main() {
    let workers = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1);
    let runtime = match workers {
        0 => tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap(),
        _ => multi_thread(workers).enable_all().build().unwrap(),
    };
    runtime.block_on(work());
    let metrics = runtime.handle().metrics();
    // A worker hands in what it counted before it parks: odd while it is parked.
    while (0..metrics.num_workers() as u64)
        .any(|worker| workers > 0 && metrics.worker_park_unpark_count(worker as usize) % 2 == 0)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut line = String::from("{");
    for (name, counts) in [
        ("yields", &YIELDS),
        ("self_wake", &SELF_WAKES),
        ("sleeps", &SLEEPS),
        ("pings", &PINGS),
        ("is_aborted", &ABORTED),
        ("waits", &WAITS),
    ] {
        let pairs: Vec<_> =
            counts.all().iter().map(|(key, count)| format!("\"{key}\":{count}")).collect();
        line.push_str(&format!("\"{name}\":{{{}}},", pairs.join(",")));
    }
    let pairs: Vec<_> =
        runtime_metrics(&metrics).iter().map(|(key, count)| format!("\"{key}\":{count}")).collect();
    println!("{line}\"runtime\":{{{}}}}}", pairs.join(","));
    std::process::exit(0);
}
