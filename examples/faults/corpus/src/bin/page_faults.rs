// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place maps fresh memory for each request and touches every page of it.
use corpus::{Expected, Run, Victims};
use std::sync::OnceLock;

const PAGE_BYTES: usize = 4096;
static PAGES: OnceLock<usize> = OnceLock::new();

#[inline(never)]
fn fill_buffer(pages: usize) {
    // SAFETY: the mapping is ours alone, and all bytes written lie in it.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let at = libc::mmap(std::ptr::null_mut(), pages * PAGE_BYTES, access, flags, -1, 0);
        assert!(at != libc::MAP_FAILED);
        libc::madvise(at, pages * PAGE_BYTES, libc::MADV_NOHUGEPAGE);
        for page in 0..pages {
            at.cast::<u8>().add(page * PAGE_BYTES).write_volatile(1);
        }
        libc::munmap(at, pages * PAGE_BYTES);
    }
}

corpus::places!(|job| {
    fill_buffer(*PAGES.get().expect("drawn"));
});

fn main() {
    let run = Run::read("page_faults");
    let pages = *PAGES.get_or_init(|| run.size(300, 30_000) as usize);
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into(), "fill_buffer".into()];
    let findings = &["page_fault_storm"];
    run.end(pages as u64, Expected { findings, culprit, victims: Victims::All });
}
