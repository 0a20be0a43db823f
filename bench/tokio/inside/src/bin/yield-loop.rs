// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/yield_loop.rs");

fn main() {
    let polls = polls_from_args();
    let (cpu_ns, wall_ns, first_ns) =
        kymo_bench_inside::run(async move { yield_loop(polls).await });
    println!("{cpu_ns:.3} {wall_ns:.3} {first_ns:.3}");
}
