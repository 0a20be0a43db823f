// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The crate as its guide sets it up, by the environment, on one worker.

/// Runs `body` on a recorded runtime of one worker.
pub fn run<F>(body: F) -> F::Output
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    kymo::init();
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let output = runtime.block_on(async { tokio::spawn(body).await.unwrap() });

    drop(runtime);
    kymo::shutdown(std::time::Duration::from_secs(10)).unwrap();
    output
}
