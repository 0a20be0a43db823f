// SPDX-License-Identifier: Apache-2.0 OR MIT
// A service with little to do, for its memory to be looked at: two workers, 100 tasks that sleep
// most of the time; ends with its input.
use std::time::Duration;

async fn sleeper(index: u64) {
    loop {
        tokio::time::sleep(Duration::from_millis(10 + index % 7)).await;
    }
}

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    for index in 0..100 {
        runtime.spawn(sleeper(index));
    }
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
    runtime.shutdown_background();
}
