// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Every way a task can begin, wait and end, and several runtimes, one after the other.
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinSet, LocalSet};
use witness::{blocking, counted, counted_local, multi_thread, runtime_counts, say, self_wake};

fn add(sums: &mut Vec<(&'static str, u64)>, more: Vec<(&'static str, u64)>) {
    for (key, value) in more {
        match sums.iter_mut().find(|(name, _)| *name == key) {
            Some(entry) => entry.1 += value,
            None => sums.push((key, value)),
        }
    }
}

async fn channels() {
    let (sender, mut receiver) = mpsc::channel::<u64>(4);
    let sum = tokio::spawn(counted(async move {
        let mut sum = 0;
        while let Some(value) = receiver.recv().await {
            sum += value
        }
        sum
    }));
    let mut senders = JoinSet::new();
    for _ in 0..4 {
        let sender = sender.clone();
        senders.spawn(counted(async move {
            for value in 0..100 {
                sender.send(value).await.unwrap()
            }
        }));
    }
    drop(sender);
    while senders.join_next().await.is_some() {}
    assert_eq!(sum.await.unwrap(), 4 * 4950);
}

async fn ends() {
    // Aborted while waiting.
    let (started, is_started) = oneshot::channel::<()>();
    let waiting = tokio::spawn(counted(async move {
        started.send(()).unwrap();
        std::future::pending::<()>().await
    }));
    is_started.await.unwrap();
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    // Panics.
    let panics = tokio::spawn(counted(async { std::panic::resume_unwind(Box::new("on purpose")) }));
    assert!(panics.await.is_err());
    // Timer; detached; self-woken.
    tokio::spawn(counted(tokio::time::sleep(Duration::from_millis(2)))).await.unwrap();
    tokio::spawn(counted(self_wake(1000))).await.unwrap();
    // Dropped with the runtime: polled, then never woken.
    let (started, is_started) = oneshot::channel::<()>();
    drop(tokio::spawn(counted(async move {
        started.send(()).unwrap();
        std::future::pending::<()>().await
    })));
    is_started.await.unwrap();
}

/// A runtime of its own on the blocking pool: what makes one is no worker of one.
#[inline(always)]
fn runtime_inside() -> Vec<(&'static str, u64)> {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { tokio::spawn(counted(self_wake(3))).await.unwrap() });
    let metrics = runtime.handle().metrics();
    drop(runtime);
    runtime_counts(&metrics)
}

async fn blockings(sums: &mut Vec<(&'static str, u64)>) {
    let mut tasks = Vec::new();
    for value in 0..20u64 {
        tasks.push(tokio::task::spawn_blocking(move || blocking(|| value)));
    }
    for task in tasks {
        task.await.unwrap();
    }
    add(sums, tokio::task::spawn_blocking(|| blocking(runtime_inside)).await.unwrap());
    tokio::spawn(counted(async {
        tokio::task::block_in_place(|| std::thread::yield_now());
        tokio::task::yield_now().await;
        tokio::task::block_in_place(|| std::thread::yield_now());
    }))
    .await
    .unwrap();
}

async fn locals() {
    let set = LocalSet::new();
    set.run_until(async {
        let tasks: Vec<_> =
            (0..3).map(|_| tokio::task::spawn_local(counted_local(self_wake(5)))).collect();
        for task in tasks {
            task.await.unwrap()
        }
    })
    .await
}

fn all(runtime: Runtime, is_multi: bool, sums: &mut Vec<(&'static str, u64)>) {
    runtime.block_on(async {
        channels().await;
        ends().await;
        locals().await;
        if is_multi {
            blockings(sums).await
        }
    });
    let metrics = runtime.handle().metrics();
    drop(runtime);
    add(sums, runtime_counts(&metrics));
}

fn main() {
    let mut sums = Vec::new();
    for workers in [1, 3] {
        let runtime = multi_thread(workers).enable_all().build().unwrap();
        all(runtime, true, &mut sums)
    }
    all(Builder::new_current_thread().enable_all().build().unwrap(), false, &mut sums);
    say("zoo", &sums);
}
