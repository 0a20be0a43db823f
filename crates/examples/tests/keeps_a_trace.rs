// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A test that fails leaves its trace: run with `-- --ignored` to see one below target/kymo.

#[kymo::test]
async fn passes() {
    tokio::spawn(async { tokio::task::yield_now().await }).await.expect("a task panicked");
}

#[kymo::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "it fails on purpose"]
async fn fails_on_purpose() {
    let answer = tokio::spawn(async { 6 * 7 }).await.expect("a task panicked");

    assert_eq!(answer, 43);
}
