// SPDX-License-Identifier: Apache-2.0 OR MIT
use dial9::spawn;
include!("../../../shared/yield_loop.rs");

fn main() {
    let polls = polls_from_args();
    let ns = kymo_bench_dial9::run(async move { yield_loop(polls).await });
    println!("{ns:.3}");
}
