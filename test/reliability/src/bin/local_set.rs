// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `local_set single|multi|bare`: a LocalSet under block_on of a current-thread runtime that has
//! tasks of its own, of a multi-thread runtime, of a current-thread runtime without any.
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::task::{spawn_local, yield_now, LocalSet};

async fn local_task() {
    for _ in 0..20 {
        yield_now().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn runtime_task() {
    for _ in 0..20 {
        yield_now().await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn all_local() {
    let tasks: Vec<_> = (0..3).map(|_| spawn_local(local_task())).collect();
    for task in tasks {
        task.await.unwrap()
    }
}

fn main() {
    let way = std::env::args().nth(1).expect("single, multi or bare");
    let runtime = match way.as_str() {
        "multi" => Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
        _ => Builder::new_current_thread().enable_all().build().unwrap(),
    };
    runtime.block_on(async {
        if way != "bare" {
            let tasks: Vec<_> = (0..3).map(|_| tokio::spawn(runtime_task())).collect();
            for task in tasks {
                task.await.unwrap()
            }
        }
    });
    LocalSet::new().block_on(&runtime, all_local());
}
