// SPDX-License-Identifier: Apache-2.0 OR MIT
use dial9::spawn;
include!("../../../shared/storms.rs");

fn main() {
    let (kind, count) = storm_from_args();
    println!("{:.3}", kymo_bench_dial9::run(storm(kind, count)));
}
