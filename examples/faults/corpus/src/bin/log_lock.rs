// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All places log to standard error, a pipe with a slow reader: one of them is in the write, the
//! others wait for the lock of the stream.
use corpus::{Expected, Run, Victims};

corpus::drawn! {
    async fn [checkout search render billing](mut job: corpus::Job) {
        while job.next().await {
            job.work();
            eprintln!("request handled: {:1000}", "ok");
            job.reply().await;
        }
    }
}

fn main() {
    let run = Run::read("log_lock");
    // A kibibyte a request, through a pipe of a page: a reader that takes a page in `size`.
    let size = run.size_us(300, 30_000);
    corpus::slow_pipe(2, size);
    run.serve(spawn);
    let culprit = NAMES.iter().map(|name| name.to_string()).collect();
    let findings = &["log_writing"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
