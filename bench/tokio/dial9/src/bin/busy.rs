// SPDX-License-Identifier: Apache-2.0 OR MIT
use dial9::spawn;
include!("../../../shared/busy.rs");

fn main() {
    let polls = polls_from_args();
    let (cpu_ns, wall_ns) = kymo_bench_dial9::run_on(2, async move { busy(polls).await });
    println!("{cpu_ns} {wall_ns}");
}
