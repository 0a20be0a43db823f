// SPDX-License-Identifier: Apache-2.0 OR MIT
use tokio::spawn;
include!("../../../shared/storms.rs");

fn main() {
    let (kind, count) = storm_from_args();
    println!("{:.3}", kymo_bench_inside::run(storm(kind, count)));
}
