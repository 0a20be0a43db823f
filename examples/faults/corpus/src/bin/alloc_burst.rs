// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A place makes many small allocations in one poll, and frees them again.
use corpus::{Expected, Run, Victims};
use std::sync::OnceLock;

static COUNT: OnceLock<u64> = OnceLock::new();

#[inline(never)]
fn build_rows(count: u64) -> usize {
    let rows: Vec<Vec<u8>> = (0..count).map(|i| vec![i as u8; 40 + (i % 64) as usize]).collect();
    rows.iter().map(Vec::len).sum()
}

corpus::places!(|job| {
    std::hint::black_box(build_rows(*COUNT.get().expect("drawn")));
});

fn main() {
    let run = Run::read("alloc_burst");
    let count = *COUNT.get_or_init(|| run.size(3_000, 300_000));
    run.serve(spawn);
    let culprit = vec![NAMES[run.hit].into(), "build_rows".into()];
    let findings = &["allocation_burst"];
    run.end(count, Expected { findings, culprit, victims: Victims::All });
}
