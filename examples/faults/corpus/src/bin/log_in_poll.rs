// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place logs to standard error, which is a pipe with a slow reader.
use corpus::{Expected, Run, Victims};

corpus::places!(|job| {
    for line in 0..32 {
        eprintln!("request handled: line {line:4} {:100}", "ok");
    }
});

fn main() {
    let run = Run::read("log_in_poll");
    let size = run.size_us(300, 30_000);
    corpus::slow_pipe(2, size);
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["log_writing"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
