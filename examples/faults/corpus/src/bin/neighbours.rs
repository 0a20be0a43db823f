// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other processes take the CPUs for a while: the program itself does nothing wrong.
use corpus::{plain, Expected, Run, Victims};
use std::process::Command;
use std::time::Duration;

fn main() {
    let run = Run::read("neighbours");
    let count = run.size(1, 100);
    let mut others: Vec<_> = (0..count)
        .filter_map(|_| Command::new("sh").args(["-c", "while :; do :; done"]).spawn().ok())
        .collect();
    let runtime = run.runtime();
    runtime.block_on(async {
        for one in run.traffic(plain::spawn).await {
            let _ = one.await;
        }
    });
    for other in &mut others {
        let _ = other.kill();
        let _ = other.wait();
    }
    runtime.shutdown_timeout(Duration::from_millis(200));
    let findings = &["cpu_starvation"];
    run.end(count, Expected { findings, culprit: vec![], victims: Victims::Others });
}
