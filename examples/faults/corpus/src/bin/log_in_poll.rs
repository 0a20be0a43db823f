// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place logs to standard error, which is a pipe with a slow reader.
use corpus::{Expected, Run, Victims};
use std::time::Duration;

corpus::places!(|job| {
    for line in 0..32 {
        eprintln!("request handled: line {line:4} {:100}", "ok");
    }
});

/// Standard error becomes a pipe; its other end.
fn pipe_for_errors() -> libc::c_int {
    let mut ends = [0; 2];
    // SAFETY: `ends` is ours, and both descriptors are open.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 4096);
        libc::dup2(ends[1], 2);
        libc::close(ends[1]);
    }
    ends[0]
}

fn read_slowly(fd: libc::c_int, pause: Duration) {
    let mut bytes = [0u8; 4096];
    // SAFETY: `bytes` is ours.
    while unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {
        std::thread::sleep(pause);
    }
}

fn main() {
    let run = Run::read("log_in_poll");
    let size = run.size_us(300, 30_000);
    let fd = pipe_for_errors();
    std::thread::spawn(move || read_slowly(fd, size));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into()];
    let findings = &["log_writing"];
    run.end(size.as_micros() as u64, Expected { findings, culprit, victims: Victims::All });
}
