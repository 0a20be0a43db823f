// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a recorder must not change: panics, aborts, wakers that outlive their runtime, wakes from
//! foreign threads, runtimes that come and go, fork, starting and stopping in the middle of it all.
//! Prints what it did; the test compares that with and without recording.
//!
//!     cargo run --example attacked -- CASE
use std::future::poll_fn;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            panic!("in drop");
        }
    }
}

fn runtime(workers: usize) -> Runtime {
    Builder::new_multi_thread().worker_threads(workers).enable_all().build().expect("a runtime")
}

fn start() -> kymo::Recorder {
    kymo::Recorder::start(kymo::Config::from_env().build_or_disabled()).expect("a recorder")
}

/// Panics in polls and in drops, tasks that abort each other.
fn panics() {
    let _recorder = start();
    let runtime = runtime(2);

    std::panic::set_hook(Box::new(|_| {}));
    kymo::dump_on_panic();
    let ended = runtime.block_on(async {
        let mut ended = [0; 3];

        for round in 0..50 {
            let panicking = tokio::spawn(async move {
                tokio::task::yield_now().await;
                assert!(round > 1000, "in a poll");
            });
            let dropping = tokio::spawn(async {
                let _held = PanicsInDrop;

                tokio::task::yield_now().await;
            });
            let waiting = tokio::spawn(std::future::pending::<()>());
            let aborting = waiting.abort_handle();

            tokio::spawn(async move { aborting.abort() }).await.expect("it only aborts");
            ended[0] += usize::from(panicking.await.is_err_and(|why| why.is_panic()));
            ended[1] += usize::from(dropping.await.is_err_and(|why| why.is_panic()));
            ended[2] += usize::from(waiting.await.is_err_and(|why| why.is_cancelled()));
        }
        ended
    });
    println!("{ended:?}");
}

/// Each of two tasks aborts the other one, itself, and tasks that are polled elsewhere.
fn mutual() {
    let _recorder = start();
    let ended = runtime(2).block_on(async {
        let mut ended = [0; 2];

        for round in 0..500 {
            let handles: Arc<Mutex<Vec<tokio::task::AbortHandle>>> = Arc::default();
            let (ready, _) = tokio::sync::broadcast::channel::<()>(1);
            let tasks: Vec<_> = (0..4)
                .map(|number| {
                    let handles = handles.clone();
                    let mut ready = ready.subscribe();

                    tokio::spawn(async move {
                        let _ = ready.recv().await;
                        let all = handles.lock().expect("no panic").clone();

                        // Among them its own.
                        all.iter().skip((number + round) % 4).for_each(|other| other.abort());
                        all.iter().for_each(|other| other.abort());
                        std::future::pending::<()>().await;
                    })
                })
                .collect();

            handles.lock().expect("no panic").extend(tasks.iter().map(|task| task.abort_handle()));
            drop(ready);
            for task in tasks {
                let why = task.await.expect_err("nothing completes");

                ended[0] += usize::from(why.is_cancelled());
                ended[1] += 1;
            }
        }
        ended
    });

    println!("{ended:?}");
}

/// A waker that is kept, cloned and used after its runtime is gone, and from foreign threads.
fn wakers() {
    let _recorder = start();
    let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();

    for _ in 0..20 {
        let runtime = runtime(2);
        let theirs = kept.clone();

        runtime.spawn(poll_fn(move |context| {
            theirs.lock().expect("no panic").push(context.waker().clone());
            Poll::<()>::Pending
        }));
        while kept.lock().expect("no panic").is_empty() {
            std::thread::yield_now();
        }
        let foreign = kept.lock().expect("no panic")[0].clone();

        std::thread::spawn(move || foreign.wake()).join().expect("it only wakes");
        drop(runtime);
        for waker in kept.lock().expect("no panic").drain(..) {
            waker.wake_by_ref();
            let again = waker.clone();

            again.wake();
        }
    }
    println!("woken");
}

/// Runtimes that come and go, some from inside a blocking closure of another one.
fn churn() {
    let _recorder = start();
    let mut sum = 0;

    for round in 0..10_000 {
        let runtime = Builder::new_current_thread().build().expect("a runtime");

        sum +=
            runtime.block_on(async { tokio::spawn(async move { round }).await }).expect("a task");
    }
    for round in 0..50 {
        sum += runtime(2).block_on(async {
            tokio::task::spawn_blocking(move || {
                runtime(1).block_on(async { tokio::spawn(async move { round }).await })
            })
            .await
            .expect("a closure")
            .expect("a task")
        });
    }
    println!("{sum}");
}

/// Very many tasks that wait at the same time; half of them end, half go with the runtime.
fn many(count: u32) {
    let _recorder = start();
    let runtime = runtime(2);
    let (sender, _) = tokio::sync::broadcast::channel::<()>(1);
    let ended = runtime.block_on(async {
        let waiting: Vec<_> = (0..count)
            .map(|number| {
                let mut receiver = sender.subscribe();

                tokio::spawn(async move {
                    if number % 2 == 1 {
                        std::future::pending::<()>().await;
                    }
                    let _ = receiver.recv().await;
                })
            })
            .collect();

        drop(sender);
        let mut ended = 0;

        for task in waiting.into_iter().step_by(2) {
            task.await.expect("a task panicked");
            ended += 1;
        }
        ended
    });

    drop(runtime);
    println!("{ended}");
}

/// Wakes that a signal causes.
fn signals() {
    use tokio::signal::unix::{signal, SignalKind};

    let _recorder = start();
    let task = async {
        let mut signals = signal(SignalKind::user_defined1()).expect("a handler");
        let mut came = 0;

        for _ in 0..200 {
            // SAFETY: a handler is installed.
            unsafe { raise(SIGUSR1) };
            signals.recv().await.expect("the handler stays");
            came += 1;
        }
        came
    };
    let came = runtime(2).block_on(async { tokio::spawn(task).await });

    println!("{}", came.expect("a task"));
}

/// A stack that no thread of Rust's own can have, so that none can be made but Tokio's.
fn threadless() {
    std::env::set_var("RUST_MIN_STACK", (1_u64 << 46).to_string());
    let recorder = start();
    let is_refused = std::thread::Builder::new().spawn(|| {}).is_err();
    let runtime = Builder::new_current_thread().build().expect("a runtime");
    let result = runtime.block_on(async { kymo::spawn(async { 7 }).await }).expect("a task");

    println!("{is_refused} {result}");
    recorder.shutdown(Duration::from_secs(5)).expect("the trace is sealed");
}

/// A task panics in flight mode: what led to it is dumped.
fn hook() {
    let _recorder = start();

    std::panic::set_hook(Box::new(|_| println!("the program's own hook")));
    kymo::dump_on_panic();
    let task = runtime(1).block_on(async {
        tokio::spawn(async {
            tokio::task::yield_now().await;
            panic!("in a poll");
        })
        .await
    });

    println!("{}", task.is_err());
}

/// The recorder starts and stops again and again while tasks run, also inside a poll.
fn restarts() {
    let runtime = runtime(2);
    let (stop, stopped) = oneshot::channel::<()>();
    let counted = runtime.spawn(async {
        let mut stopped = stopped;
        let mut turns = 0_u64;

        while stopped.try_recv().is_err() {
            turns += 1;
            tokio::task::yield_now().await;
        }
        turns
    });
    let mut polls = 0;

    for _ in 0..20 {
        let recorder = start();

        polls += u64::from(recorder.status().is_recording || !kymo::Status::now().is_recording);
        std::thread::sleep(Duration::from_millis(2));
        recorder.shutdown(Duration::from_secs(5)).expect("the trace is sealed");
    }
    let inside = runtime.spawn(async {
        let recorder = start();

        tokio::task::yield_now().await;
        tokio::task::block_in_place(|| drop(recorder));
        1
    });
    polls += runtime.block_on(inside).expect("a task");
    stop.send(()).expect("it counts");
    println!("{polls} {}", runtime.block_on(counted).expect("a task") > 0);
}

const SIGUSR1: i32 = 10;

extern "C" {
    fn raise(signal: i32) -> i32;
    fn fork() -> i32;
    fn waitpid(pid: i32, status: *mut i32, options: i32) -> i32;
    fn _exit(status: i32) -> !;
}

/// A child works on without recording; the parent's trace is its own.
fn forks() {
    let _recorder = start();
    let work = || {
        let runtime = Builder::new_current_thread().build().expect("a runtime");

        runtime.block_on(async { tokio::spawn(async { 7 }).await }).expect("a task")
    };
    let mut status = 0;

    println!("{}", work());
    // SAFETY: the child uses no lock that another thread of the parent could hold.
    let child = unsafe { fork() };

    if child == 0 {
        let is_fine = catch_unwind(AssertUnwindSafe(work)).is_ok_and(|result| result == 7);

        // SAFETY: it ends the child at once.
        unsafe { _exit(if is_fine { 5 } else { 6 }) }
    }
    // SAFETY: status is written.
    unsafe { waitpid(child, &mut status, 0) };
    println!("{} {}", status >> 8, work());
}

/// It dies in a poll.
fn aborts() {
    let recorder = start();

    runtime(2).block_on(async {
        tokio::spawn(async {
            tokio::task::yield_now().await;
            std::process::abort();
        })
        .await
        .expect("it never ends");
    });
    drop(recorder);
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("panics") => panics(),
        Some("wakers") => wakers(),
        Some("churn") => churn(),
        Some("mutual") => mutual(),
        Some("many") => many(100_000),
        Some("million") => many(1_000_000),
        Some("signals") => signals(),
        Some("threadless") => threadless(),
        Some("hook") => hook(),
        Some("restarts") => restarts(),
        Some("forks") => forks(),
        Some("aborts") => aborts(),
        _ => eprintln!("attacked: the cases are in its source"),
    }
}
