// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Polls when it is asked to: for each line with a number on standard input one task that is polled
//! so often. Says how many polls there were in all. A tracer may come and go in between.
use std::io::BufRead;
use std::io::Write;
use witness::{counted, multi_thread, self_wake};

fn main() {
    let runtime = multi_thread(2).build().unwrap();
    let mut total = 0;

    println!("ready");
    std::io::stdout().flush().unwrap();
    for line in std::io::stdin().lock().lines() {
        let times: u64 = line.unwrap().trim().parse().unwrap();
        runtime.block_on(async {
            tokio::spawn(counted(self_wake(times - 1))).await.unwrap(); // the spawn place
        });
        total += times;
        println!("{total}");
        std::io::stdout().flush().unwrap();
    }
}
