// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A standard stream that is a pipe of one page, whose reader takes its time.

use std::time::Duration;

/// Descriptor `fd` becomes the pipe; a thread reads up to a page of it every `pause`.
pub fn slow_pipe(fd: libc::c_int, pause: Duration) {
    let mut ends = [0; 2];
    // SAFETY: `ends` is ours, and both descriptors are open.
    unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        libc::fcntl(ends[1], libc::F_SETPIPE_SZ, 4096);
        libc::dup2(ends[1], fd);
        libc::close(ends[1]);
    }
    std::thread::spawn(move || read_slowly(ends[0], pause));
}

fn read_slowly(fd: libc::c_int, pause: Duration) {
    let mut bytes = [0u8; 4096];
    // SAFETY: `bytes` is ours.
    while unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) } > 0 {
        std::thread::sleep(pause);
    }
}
