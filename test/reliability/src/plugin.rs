// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A library with a Tokio of its own, for programs that load it while they run.

/// Runs ten tasks to their end; 42 when all did.
#[no_mangle]
pub extern "C" fn reliability_answer() -> i32 {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = (0..10).map(|_| tokio::spawn(tokio::task::yield_now())).collect();
        let mut count = 0;
        for task in tasks {
            count += task.await.is_ok() as i32
        }
        count + 32
    })
}
